#pragma once
// Guards of the interpreter, shared by its source files.

#include <algorithm>

#include "text/jinja_interpreter.h"

namespace millrace {

// Bounds the native stack: every nested evaluation and statement passes through one.
class Interpreter::NestGuard {
 public:
  explicit NestGuard(Interpreter& interpreter) : interpreter_(interpreter) {
    interpreter_.runtime_.step();
    if (++interpreter_.nesting_ > interpreter_.runtime_.limits().max_nesting) {
      --interpreter_.nesting_;
      throw TemplateError{ErrorCode::kResourceExhausted, "nested too deeply", false};
    }
  }
  ~NestGuard() { --interpreter_.nesting_; }
  NestGuard(const NestGuard&) = delete;
  NestGuard& operator=(const NestGuard&) = delete;

 private:
  Interpreter& interpreter_;
};

// The activation of a running function. It stays alive after the call when a macro was made in it.
class Interpreter::Frame {
 public:
  Frame(Interpreter& interpreter, Activation* outer, int n_slots)
      : interpreter_(interpreter),
        saved_(interpreter.activation_),
        own_(std::make_unique<Activation>()) {
    if (interpreter_.n_calls_ >= interpreter_.runtime_.limits().max_calls) {
      throw TemplateError{ErrorCode::kResourceExhausted,
                          fmt::format("more than {} calls inside each other",
                                      interpreter_.runtime_.limits().max_calls),
                          false};
    }
    interpreter_.runtime_.charge_bytes(static_cast<uint64_t>(n_slots) * sizeof(Value));
    own_->slots.assign(static_cast<size_t>(n_slots), Value::missing());
    own_->outer = outer;
    ++interpreter_.n_calls_;
    interpreter_.activation_ = own_.get();
  }
  ~Frame() {
    --interpreter_.n_calls_;
    interpreter_.activation_ = saved_;
    if (own_->is_captured) interpreter_.captured_.push_back(std::move(own_));
  }
  Frame(const Frame&) = delete;
  Frame& operator=(const Frame&) = delete;

 private:
  Interpreter& interpreter_;
  Activation* saved_;
  std::unique_ptr<Activation> own_;
};

}  // namespace millrace
