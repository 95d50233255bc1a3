// One level of nesting of the text, while it lives.
#ifndef LAMINA_HLO_STABLEHLO_DEEPER_H_
#define LAMINA_HLO_STABLEHLO_DEEPER_H_

#include "hlo/stablehlo/text_parser.h"

namespace lamina::hlo::stablehlo {

class TextParser::Deeper {
 public:
  explicit Deeper(TextParser& parser) : parser_(parser) { ++parser_.depth_; }
  ~Deeper() { --parser_.depth_; }
  Deeper(const Deeper&) = delete;
  Deeper& operator=(const Deeper&) = delete;
  absl::Status check() const {
    if (parser_.depth_ <= kMaxNesting) return absl::OkStatus();
    return parser_.in_.error(str_cat("the text nests deeper than ", kMaxNesting, " levels"));
  }

 private:
  TextParser& parser_;
};

}  // namespace lamina::hlo::stablehlo

#endif  // LAMINA_HLO_STABLEHLO_DEEPER_H_
