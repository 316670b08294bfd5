// Mutated templates: whatever the source, compiling and rendering end in a text or an error.
#include <gtest/gtest.h>

#include <random>

#include "text/chat_template.h"

namespace millrace {
namespace {

// Pieces that mutations put together; together they touch the whole language.
const char* const kPieces[] = {
    "{{ ",
    " }}",
    "{% ",
    " %}",
    "{%- ",
    " -%}",
    "{{- ",
    "{# ",
    " #}",
    "\n",
    "  ",
    "messages",
    "m",
    "x",
    "ns",
    "loop",
    "if ",
    "elif ",
    "else",
    "endif",
    "for ",
    " in ",
    "endfor",
    "set ",
    "endset",
    "macro f(a, b=1)",
    "endmacro",
    "call f(1)",
    "endcall",
    "filter upper",
    "endfilter",
    "break",
    "continue",
    "raw",
    "endraw",
    "generation",
    "endgeneration",
    "recursive",
    "is ",
    "not ",
    "and ",
    "or ",
    "defined",
    "string",
    "mapping",
    "|",
    "tojson",
    "length",
    "join",
    "map(attribute='role')",
    "selectattr('role')",
    "list",
    "sort",
    "reverse",
    "first",
    "last",
    "replace('a', 'bb')",
    "indent(3)",
    "trim",
    "default('q')",
    "batch(2)",
    "groupby('role')",
    "items",
    "dictsort",
    "round",
    "int",
    "e",
    "safe",
    "truncate(3)",
    ".role",
    ".content",
    ".split('a')",
    ".strip()",
    ".items()",
    ".append(x)",
    ".format(1)",
    ".index",
    ".cycle(1, 2)",
    "[0]",
    "[1:]",
    "[::-1]",
    "['role']",
    "[",
    "]",
    "(",
    ")",
    "{",
    "}",
    ",",
    ":",
    "=",
    "==",
    "+",
    "-",
    "*",
    "/",
    "//",
    "%",
    "**",
    "~",
    "<",
    "'a'",
    "\"b\\n\"",
    "'%5s'",
    "1",
    "0",
    "2.5",
    "99999999999",
    "none",
    "true",
    "namespace(a=1)",
    "ns.a",
    "range(9)",
    "dict(a=x)",
    "joiner()",
    "cycler(1, 2)",
    "raise_exception('r')",
    "strftime_now('%Y')",
    "f(1)",
    "loop(x)",
    "caller()",
    "varargs",
};

const char* const kSeeds[] = {
    "{% set ns = namespace(a=0, x=[]) %}{% for m in messages %}{% if loop.first and m.role == "
    "'system' %}{{ m.content|trim }}{% else %}<{{ m['role'] }}>{{ m.content[:3] ~ loop.index }}"
    "{% set ns.a = ns.a + 1 %}{% endif %}{% endfor %}{{ ns.a }}{{ messages|tojson(indent=2) }}",
    "{%- macro f(a, b=1) -%}{{ a }}{{ caller() if caller }}{% if b > 0 %}{{ f(a, b - 1) }}{% endif "
    "%}{%- endmacro -%}"
    "{{ f('x') }}{% call f(1) %}{{ 1 }}{% endcall %}{% filter upper %}abc{% endfilter %}"
    "{% set x %}{{ f(2) }}{% endset %}{{ x|replace('x', 'yy')|length }}",
    "{% for k, v in {'a': 1, 'b': [2, {'c': none}]}.items() %}{{ k }}{{ v|tojson }}{% endfor %}"
    "{% for m in messages if m.content is string %}{{ loop.previtem }}{{ loop.nextitem }}"
    "{% for c in m.content recursive %}{{ c }}{% break %}{% endfor %}{% else %}-{% endfor %}"
    "{{ messages|selectattr('role', 'equalto', 'user')|list|length }}{{ 7 // 2 ** 3 % 5 }}",
};

std::string mutate(std::string source, std::mt19937_64& random) {
  const auto below = [&](size_t n) { return static_cast<size_t>(random() % n); };
  const size_t n_mutations = 1 + below(3);
  for (size_t i = 0; i < n_mutations; ++i) {
    const size_t at = below(source.size() + 1);
    const std::string piece = kPieces[below(std::size(kPieces))];
    switch (below(5)) {
      case 0:
        source.insert(at, piece);
        break;
      case 1:
        source.erase(at, 1 + below(12));
        break;
      case 2:
        source.replace(at, std::min(piece.size(), source.size() - at), piece);
        break;
      case 3:
        source.insert(at, source.substr(below(source.size() + 1), below(60)));
        break;
      default:
        if (at < source.size()) source[at] = static_cast<char>(random() & 0x7F);
    }
  }
  return source;
}

ChatInput make_input() {
  ChatInput input;
  std::vector<Value> messages;
  for (const char* role : {"system", "user", "assistant", "user"}) {
    messages.push_back(Value::dict({{"role", role}, {"content", "aé東 text\nwith lines"}}));
  }
  input.messages = Value::list(std::move(messages));
  input.extra = Value::dict({{"x", Value::list({3, "a", Value()})}});
  input.now = CivilTime{2025, 1, 2, 3, 4, 5};
  return input;
}

TEST(JinjaFuzz, seeds_render_before_they_are_mutated) {
  for (const char* source : kSeeds) {
    Result<ChatTemplate> chat = ChatTemplate::compile(source);
    ASSERT_TRUE(chat) << chat.error().message;
    const auto pieces = chat->render_verbatim(make_input());
    EXPECT_TRUE(pieces) << pieces.error().message;
  }
}

TEST(JinjaFuzz, mutated_templates_end_in_a_text_or_an_error) {
  const ChatInput input = make_input();
  int n_rendered = 0;
  for (uint64_t seed = 0; seed < 3000; ++seed) {
    std::mt19937_64 random(seed);
    std::string source = kSeeds[seed % std::size(kSeeds)];
    source = mutate(std::move(source), random);
    SCOPED_TRACE("seed " + std::to_string(seed) + ": " + source);
    Result<ChatTemplate> chat = ChatTemplate::compile(source);
    if (!chat) {
      EXPECT_FALSE(chat.error().message.empty());
      continue;
    }
    const auto pieces = chat->render_verbatim(input);
    if (!pieces && source.find("raise") == std::string::npos) {
      EXPECT_FALSE(pieces.error().message.empty());
    }
    if (pieces) ++n_rendered;
  }
  EXPECT_GT(n_rendered, 100);
}

TEST(JinjaFuzz, random_pieces_end_in_a_text_or_an_error) {
  const ChatInput input = make_input();
  for (uint64_t seed = 0; seed < 3000; ++seed) {
    std::mt19937_64 random(seed + 1'000'000);
    std::string source;
    const size_t n_pieces = 1 + random() % 40;
    for (size_t i = 0; i < n_pieces; ++i) source += kPieces[random() % std::size(kPieces)];
    SCOPED_TRACE("seed " + std::to_string(seed) + ": " + source);
    Result<ChatTemplate> chat = ChatTemplate::compile(source);
    if (chat) (void)chat->render_verbatim(input).has_value();
  }
}

}  // namespace
}  // namespace millrace
