#pragma once
// Binds every name of a template to a slot and every filter and test to its function, with Jinja's
// scoping rules: a function (template, macro, call block, recursive loop) is one activation, each
// loop body or block is a scope of slots in it, and what a scope assigns stays inside it.

#include "text/jinja_ast.h"

namespace millrace {

// Throws TemplateError for unknown filters and tests outside of conditions.
void resolve_names(ParsedTemplate& parsed);

}  // namespace millrace
