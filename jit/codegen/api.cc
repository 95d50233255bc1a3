// The exported table: flat arrays in, opaque handles out.
#include "jit/codegen/api.h"

#include <cstdio>
#include <cstring>
#include <memory>
#include <string>

#include "jit/codegen/orc.h"
#include "jit/codegen/version.h"

using lamina::hlo::DType;
using lamina::hlo::Prim;
using lamina::jit::LoopKernel;
using lamina::jit::cpu::Code;
using lamina::jit::cpu::Engine;

struct LaminaEngine {
  std::unique_ptr<Engine> engine;
};
struct LaminaCode {
  std::unique_ptr<Code> code;
};
struct LaminaText {
  std::string text;
};

namespace {

std::vector<lamina::jit::KernelInstr> decode_section(const LaminaInstr* instrs, uint32_t count) {
  std::vector<lamina::jit::KernelInstr> result(count);
  for (uint32_t i = 0; i < count; ++i) {
    const LaminaInstr& in = instrs[i];
    auto& out = result[i];
    out.op = static_cast<lamina::jit::KernelOp>(in.op);
    out.prim = static_cast<Prim>(in.prim);
    out.type = static_cast<DType>(in.type);
    out.predicated = in.predicated != 0;
    std::memcpy(out.operands, in.operands, sizeof(out.operands));
    out.imm = in.imm;
  }
  return result;
}

LoopKernel decode(const LaminaKernel& in) {
  LoopKernel out;
  out.parallel_rank = in.parallel_rank;
  out.reduce_rank = in.reduce_rank;
  out.has_reduction = in.has_reduction != 0;
  out.num_args = in.num_args;
  for (uint32_t i = 0; i < in.num_buffers; ++i)
    out.buffers.push_back({static_cast<DType>(in.buffer_types[i]), in.buffer_written[i] != 0});
  for (uint32_t i = 0; i < in.num_accesses; ++i) {
    const LaminaAccess& a = in.accesses[i];
    lamina::jit::Access access{a.buffer, a.offset_slot, {}};
    for (uint32_t k = 0; k < a.num_terms; ++k) {
      const LaminaTerm& term = in.terms[a.first_term + k];
      access.terms.push_back({term.dim, term.unit, term.stride_slot});
    }
    out.accesses.push_back(std::move(access));
  }
  out.body = decode_section(in.body, in.num_body);
  out.epilogue = decode_section(in.epilogue, in.num_epilogue);
  for (uint32_t i = 0; i < in.num_stores; ++i)
    out.stores.push_back({in.stores[i].access, in.stores[i].value});
  for (uint32_t i = 0; i < in.num_repeats; ++i) {
    const LaminaRepeat& r = in.repeats[i];
    lamina::jit::Repeat repeat;
    repeat.counted = r.counted != 0;
    repeat.init.assign(r.init, r.init + r.num_carried);
    repeat.cond = decode_section(r.cond, r.num_cond);
    repeat.condition = r.condition;
    repeat.body = decode_section(r.body, r.num_body);
    repeat.next.assign(r.next, r.next + r.num_carried);
    for (uint32_t k = 0; k < r.num_stores; ++k)
      repeat.stores.push_back({r.stores[k].access, r.stores[k].value});
    out.repeats.push_back(std::move(repeat));
  }
  auto& reduction = out.reduction;
  reduction.form = static_cast<lamina::jit::ReduceForm>(in.reduce_form);
  const uint32_t m = in.num_reduced;
  reduction.inputs.assign(in.reduce_inputs, in.reduce_inputs + m);
  reduction.init.assign(in.reduce_init, in.reduce_init + m);
  for (uint32_t i = 0; i < 2 * m; ++i)
    reduction.combine.inputs.push_back(static_cast<DType>(in.combine_inputs[i]));
  for (uint32_t i = 0; i < in.num_combine; ++i) {
    const LaminaInstr& c = in.combine[i];
    lamina::hlo::ScalarInstr instr;
    instr.prim = static_cast<Prim>(c.prim);
    instr.type = static_cast<DType>(c.type);
    std::memcpy(instr.operands, c.operands, sizeof(instr.operands));
    instr.imm = c.imm;
    reduction.combine.code.push_back(instr);
  }
  reduction.combine.outputs.assign(in.combine_outputs, in.combine_outputs + m);
  return out;
}

void set_error(llvm::Error error, char* buffer, size_t size) {
  const std::string message = llvm::toString(std::move(error));
  if (size > 0) std::snprintf(buffer, size, "%s", message.c_str());
}

LaminaEngine* engine_create(const LaminaEngineOptions* options, char* error, size_t error_size) {
  auto engine = Engine::create(*options);
  if (!engine) {
    set_error(engine.takeError(), error, error_size);
    return nullptr;
  }
  return new LaminaEngine{std::move(*engine)};
}

void engine_destroy(LaminaEngine* engine) { delete engine; }

const char* engine_target(const LaminaEngine* engine) { return engine->engine->target_text().c_str(); }

LaminaCode* take_code(llvm::Expected<std::unique_ptr<Code>> code, char* error, size_t error_size) {
  if (!code) {
    set_error(code.takeError(), error, error_size);
    return nullptr;
  }
  return new LaminaCode{std::move(*code)};
}

LaminaCode* compile(LaminaEngine* engine, const LaminaKernel* kernel, int keep_object, char* error,
                    size_t error_size) {
  return take_code(engine->engine->compile(decode(*kernel), keep_object != 0), error, error_size);
}

LaminaCode* load_object(LaminaEngine* engine, const void* data, size_t size, char* error, size_t error_size) {
  return take_code(engine->engine->load(llvm::StringRef(static_cast<const char*>(data), size)), error,
                   error_size);
}

void code_info(const LaminaCode* code, LaminaCodeInfo* info) {
  const uint32_t size = info->struct_size;
  LaminaCodeInfo full = code->code->info;
  full.struct_size = sizeof(full);
  std::memcpy(info, &full, size < sizeof(full) ? size : sizeof(full));
}

void code_release(LaminaEngine* engine, LaminaCode* code) {
  engine->engine->release(std::move(code->code));
  delete code;
}

LaminaText* make_text(LaminaEngine* engine, const LaminaKernel* kernel, int kind, char* error,
                      size_t error_size) {
  auto text = engine->engine->text(decode(*kernel), kind);
  if (!text) {
    set_error(text.takeError(), error, error_size);
    return nullptr;
  }
  return new LaminaText{std::move(*text)};
}

const char* text_data(const LaminaText* text, size_t* size) {
  *size = text->text.size();
  return text->text.data();
}

void text_free(LaminaText* text) { delete text; }

constexpr LaminaLlvmApi kApi = {
    lamina::jit::kLlvmInterface,
    sizeof(LaminaLlvmApi),
    engine_create,
    engine_destroy,
    engine_target,
    compile,
    load_object,
    code_info,
    code_release,
    make_text,
    text_data,
    text_free,
};

}  // namespace

extern "C" __attribute__((visibility("default"))) const LaminaLlvmApi* lamina_llvm_get_api(uint32_t version) {
  return version == lamina::jit::kLlvmInterface ? &kApi : nullptr;
}
