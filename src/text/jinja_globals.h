#pragma once
// Functions that every template sees: range, dict, namespace, joiner, cycler, raise_exception,
// strftime_now.

#include "text/jinja_runtime.h"

namespace millrace {

using GlobalFunction = Value (*)(Runtime&, Arguments&);

struct FunctionObject : TemplateObject {
  FunctionObject(std::string name, GlobalFunction function)
      : TemplateObject(ObjectKind::kFunction, "function"),
        name(std::move(name)),
        function(function) {}
  std::string name;
  GlobalFunction function;
};

Dict make_globals();

}  // namespace millrace
