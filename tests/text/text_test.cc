// Runs the text files: round trips, what passes make of programs, and that results keep their bits.
#include <catch2/catch.hpp>
#include <cstdlib>
#include <set>

#include "hlo/evaluator.h"
#include "hlo/op.h"
#include "hlo/parser.h"
#include "hlo/passes/pass.h"
#include "hlo/printer.h"
#include "hlo/verifier.h"
#include "tests/smith/text_cases.h"

namespace lamina::testing {
namespace {

using namespace hlo;

bool updating() { return std::getenv("LAMINA_UPDATE_TEXT") != nullptr; }

std::string message(const absl::Status& s) { return std::string(s.message()); }

ComputationPtr parse_or_fail(const std::string& text) {
  absl::StatusOr<ComputationPtr> c = parse(text);
  INFO(text);
  INFO((c.ok() ? "" : message(c.status())));
  REQUIRE(c.ok());
  return *c;
}

// Runs on the host or belongs to a vmap, and tokens have no literals.
bool can_run(const Computation& c) {
  std::vector<const Computation*> all = regions_of(c);
  all.push_back(&c);
  for (const Computation* each : all) {
    for (const Node* n : each->nodes())
      if (n->op() == Op::custom_call || n->def().family == OpFamily::kCollective || n->type()->is_token())
        return false;
    for (const Value& p : each->parameters())
      if (!p.type()->is_array()) return false;
  }
  return true;
}

void check_same_results(const Computation& a, const Computation& b) {
  for (uint64_t seed : {1, 2, 3}) {
    const std::vector<LiteralPtr> arguments = arguments_for(a, seed);
    const auto x = evaluate(a, arguments), y = evaluate(b, arguments);
    REQUIRE(x.ok() == y.ok());
    if (!x.ok()) continue;
    REQUIRE(x->size() == y->size());
    for (size_t i = 0; i < x->size(); ++i) {
      INFO("result " << i << ", seed " << seed);
      CHECK(same_values(*(*x)[i], *(*y)[i]));
    }
  }
}

TEST_CASE("text files of operations read back as they are", "[text]") {
  std::set<Op> seen_ops;
  std::set<Attr> seen_attrs;
  for (TextFile& file : text_files("ops")) {
    for (TextCase& c : file.cases) {
      INFO(file.path << ": " << c.name);
      const ComputationPtr program = parse_or_fail(c.input);
      const std::string text = print(*program);
      if (updating()) c.input = text;
      CHECK(text == c.input);
      CHECK(parse_or_fail(text) == program);
      const ComputationPtr canonical = parse_or_fail(print(*program, TextOptions::canonical()));
      CHECK(canonical == program);
      TextOptions typed = TextOptions::full();
      typed.operand_types = true;
      CHECK(parse_or_fail(print(*program, typed)) == program);
      const absl::Status verified = verify(*program);
      INFO(message(verified));
      CHECK(verified.ok());
      if (can_run(*program)) check_same_results(*program, *program);
      std::vector<const Computation*> all = regions_of(*program);
      all.push_back(program.get());
      for (const Computation* each : all)
        for (const Node* n : each->nodes()) {
          seen_ops.insert(n->op());
          for (const auto& [key, value] : n->attrs().entries()) seen_attrs.insert(key);
        }
    }
    if (updating()) write_text_file(file);
  }
  // Every op of the table but those made by the recorder only, and every attribute that an op takes.
  std::set<Attr> taken;
  for (int i = 0; i < num_ops(); ++i) {
    const OpDef& def = op_def(static_cast<Op>(i));
    INFO(std::string(def.name));
    CHECK((def.op == Op::leaf || seen_ops.contains(def.op)));
    for (const AttrSpec& spec : def.attrs) {
      INFO(std::string(attr_name(spec.attr)));
      CHECK(seen_attrs.contains(spec.attr));
    }
  }
}

TEST_CASE("text files of passes: expected form, same bits, in normal form", "[text][passes]") {
  for (TextFile& file : text_files("passes")) {
    for (TextCase& c : file.cases) {
      INFO(file.path << ": " << c.name);
      const ComputationPtr program = parse_or_fail(c.input);
      absl::StatusOr<ComputationPtr> result = run_passes(
          c.passes, program, [&](const Pass& pass, const ComputationPtr&, const ComputationPtr& after) {
            absl::Status s = verify(*after);
            if (!s.ok()) return s;
            absl::StatusOr<ComputationPtr> again = pass.run(after);
            if (!again.ok()) return again.status();
            INFO(std::string(pass.name) << " run twice");
            CHECK(print(**again) == print(*after));
            CHECK(*again == after);
            return absl::OkStatus();
          });
      INFO((result.ok() ? "" : message(result.status())));
      REQUIRE(result.ok());
      const std::string text = print(**result);
      if (updating()) c.expected = text;
      c.has_expected = true;
      CHECK(text == c.expected);
      if (can_run(*program)) check_same_results(*program, **result);
    }
    if (updating()) write_text_file(file);
  }
}

// Every pass on every program of the corpus.
TEST_CASE("passes keep the bits of the whole corpus", "[text][passes]") {
  for (const std::string folder : {"ops", "passes"})
    for (const TextFile& file : text_files(folder))
      for (const TextCase& c : file.cases) {
        INFO(file.path << ": " << c.name);
        const ComputationPtr program = parse_or_fail(c.input);
        for (const Pass& pass : passes()) {
          INFO(std::string(pass.name));
          const absl::StatusOr<ComputationPtr> after = pass.run(program);
          INFO((after.ok() ? "" : message(after.status())));
          REQUIRE(after.ok());
          const absl::Status verified = verify(**after);
          INFO(message(verified));
          CHECK(verified.ok());
          const absl::StatusOr<ComputationPtr> again = pass.run(*after);
          REQUIRE(again.ok());
          CHECK(*again == *after);
          if (can_run(*program)) check_same_results(*program, **after);
        }
      }
}

// Changes bytes, drops and doubles pieces of correct programs: the parser answers, and what it accepts is
// sound.
TEST_CASE("the parser survives broken text", "[text]") {
  uint64_t state = 20240607;
  auto random = [&state](uint64_t n) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (state >> 33) % n;
  };
  static constexpr std::string_view kPieces[] = {"-1",
                                                 "9223372036854775807",
                                                 "[",
                                                 "]",
                                                 "(",
                                                 ")",
                                                 "{",
                                                 "}",
                                                 ",",
                                                 "=",
                                                 "nan:0x1",
                                                 "f32",
                                                 "[0,0]",
                                                 "splat(",
                                                 "v0",
                                                 "p0",
                                                 "\"",
                                                 "\\x",
                                                 "@",
                                                 "-",
                                                 "1e999",
                                                 "body=r0",
                                                 "576460752303423488",
                                                 "return",
                                                 "\n"};
  static constexpr std::string_view kNumbers[] = {"0",
                                                  "1",
                                                  "2",
                                                  "3",
                                                  "7",
                                                  "-1",
                                                  "4294967295",
                                                  "1099511627776",
                                                  "144115188075855872",
                                                  "288230376151711744",
                                                  "576460752303423488",
                                                  "-576460752303423488"};
  ParseLimits limits;
  limits.literal_bytes = 1 << 16;
  limits.all_literal_bytes = 1 << 20;
  int accepted = 0, rejected = 0;
  for (const std::string folder : {"ops", "passes"})
    for (const TextFile& file : text_files(folder))
      for (const TextCase& c : file.cases)
        for (int round = 0; round < 40; ++round) {
          std::string text = c.input;
          for (uint64_t edits = 1 + random(3); edits > 0; --edits) {
            const size_t at = random(text.size() + 1);
            const size_t length = std::min<size_t>(random(12), text.size() - at);
            switch (random(7)) {
              case 0:
                text.erase(at, length);
                break;
              case 1:
                text.insert(at, text.substr(random(text.size()), length));
                break;
              case 2:
                text.insert(at, std::string(kPieces[random(std::size(kPieces))]));
                break;
              case 3:
                text.replace(at, length, std::string(kPieces[random(std::size(kPieces))]));
                break;
              case 4:
                if (at < text.size()) text[at] = static_cast<char>(random(256));
                break;
              default: {
                // Another number for one that stands there: sizes and attributes at their limits.
                const size_t digits = text.find_first_of("0123456789", at);
                if (digits == std::string::npos) break;
                const size_t end = text.find_first_not_of("0123456789", digits);
                text.replace(digits, end == std::string::npos ? end : end - digits,
                             std::string(kNumbers[random(std::size(kNumbers))]));
              }
            }
            if (text.empty()) text = "x";
          }
          const absl::StatusOr<ComputationPtr> parsed = parse(text, limits);
          if (!parsed.ok()) {
            ++rejected;
            const std::string why = message(parsed.status());
            INFO(text);
            INFO(why);
            CHECK(std::isdigit(static_cast<unsigned char>(why[0])));
            continue;
          }
          ++accepted;
          const absl::Status verified = verify(**parsed);
          INFO(text);
          INFO(message(verified));
          CHECK(verified.ok());
        }
  CHECK(accepted > 20);
  CHECK(rejected > 1000);
}

}  // namespace
}  // namespace lamina::testing
