"""Small templates: hand-written ones for each feature, and a seeded generator of more."""

import random

CONTEXT = {
    "i": 7,
    "zero": 0,
    "neg": -3,
    "f": 2.5,
    "big": 1e20,
    "tiny": 1.5e-7,
    "whole": 3.0,
    "yes": True,
    "no": False,
    "nil": None,
    "empty": "",
    "s": "Hello, Wörld",
    "t": "  spaced\ttext \n",
    "q": "it's \"both\" \\ \n\t\x01\u00a0é\u200b\U0001f600",
    "apos": "it's",
    "html": "<a href='x'>&amp;\"</a>",
    "csv": "a,b,,c",
    "uni": "ßǅﬁΣας İi 東京 👩‍👩‍👧",
    "xs": [3, 1, 2],
    "ys": ["b", "A", "c", "B", "a"],
    "mixed": [1, "two", None, True, 2.5, [3, [4]], {"k": "v"}],
    "none_list": [],
    "nested": [[1, 2], [3, 4], [5, 6]],
    "d": {"b": 1, "a": "x", "C": None, "items": "shadow", "n": {"deep": [1, {"er": "yes"}]}},
    "empty_dict": {},
    "people": [
        {"name": "Ann", "age": 31, "tags": ["x", "y"], "address": {"city": "Oslo"}},
        {"name": "bob", "age": 25, "tags": [], "address": {"city": "Bern"}},
        {"name": "Cy", "age": 31, "tags": ["z"]},
    ],
    "tree": [{"v": 1, "kids": [{"v": 2, "kids": []}, {"v": 3, "kids": [{"v": 4, "kids": []}]}]}],
}

# One line each: what a template of that kind could contain. Backslashes stay as they are.
FEATURES = r"""
{{ i }} {{ f }} {{ big }} {{ tiny }} {{ whole }} {{ yes }} {{ nil }} {{ s }} {{ missing }}|
{{ [i, f, s, nil, yes, q, apos, html] }}
{{ (1,) }} {{ (1, 2) }} {{ () }} {{ {} }} {{ {'a': 1, 2: 'b', none: true} }}
{{ 1e16 }} {{ 1e15 }} {{ 123456789012345680.0 }} {{ 0.0001 }} {{ 0.00001 }} {{ -0.0 }} {{ 1e300 * 1e10 }}
{{ 1 + 2 * 3 - 4 / 2 }} {{ 7 // 2 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 7 % -3 }} {{ 2 ** 10 }} {{ 2 ** -1 }} {{ 7.5 // 2 }} {{ -7.5 % 2 }}
{{ -2 ** 2 }} {{ 2 ** 3 ** 2 }} {{ 10 - 3 - 2 }} {{ 100 / 7 }} {{ 6 / 3 }} {{ 1 // 0 }}
{{ 1 / 0 }}
{{ 1.0 / 0 }}
{{ 5 % 0 }}
{{ true + true }} {{ true * 3 }} {{ -true }} {{ +false }} {{ not 1 }}
{{ 'a' + 'b' }} {{ 'ab' * 3 }} {{ 3 * 'ab' }} {{ 'a' ~ 1 ~ none ~ true ~ 2.0 ~ [1] }} {{ [1] + [2] }} {{ [0] * 3 }} {{ (1,) + (2,) }}
{{ 'a' + 1 }}
{{ 1 + 'a' }}
{{ missing + 1 }}
{{ [1] + (2,) }}
{{ none + 1 }}
{{ 'a' * 'b' }}
{{ missing ~ 'x' ~ missing }}
{{ 1 < 2 < 3 }} {{ 1 < 3 < 2 }} {{ 3 > 2 > 1 == true }} {{ 1 == 1.0 == true }} {{ 'a' < 'b' }} {{ [1, 2] < [1, 3] }} {{ 'Z' < 'a' }}
{{ 1 < 'a' }}
{{ none < 1 }}
{{ missing < 1 }}
{{ missing == missing2 }} {{ missing == none }} {{ missing != 1 }} {{ none == none }} {{ {'a': 1} == {'a': 1.0} }} {{ [1] == (1,) }}
{{ 1 in xs }} {{ 9 not in xs }} {{ 'W' in s }} {{ 'b' in d }} {{ 'x' in missing }} {{ 'zz' in s }} {{ '' in s }} {{ 1 in (1, 2) }} {{ none in [none] }} {{ true in [1] }}
{{ 1 in s }}
{{ 1 in 5 }}
{{ 'x' in none }}
{{ missing in s }}
{{ [1] in d }}
{{ [1] in [[1], [2]] }} {{ 1.0 in xs }}
{{ 1 if yes else 2 }} {{ 1 if no else 2 }} {{ 1 if no }}| {{ (1 if no) is defined }} {{ 'a' if no else 'b' if yes else 'c' }} {{ [1 if yes, 2][0] if yes }}
{{ (1 if no).foo }}
{{ yes and 'x' }} {{ no or 'y' }} {{ nil or missing or 'z' }} {{ empty and 1 }}| {{ not yes or yes }} {{ not (yes and no) }} {{ yes and not no }}
{{ s[0] }} {{ s[-1] }} {{ s[7:9] }} {{ s[::-1] }} {{ s[1:10:3] }} {{ s[99] }}| {{ s[5:2] }}| {{ uni[-3:] }} {{ uni[::2] }} {{ uni|length }}
{{ xs[0] }} {{ xs[-1] }} {{ xs[1:] }} {{ xs[:-1] }} {{ xs[::-1] }} {{ xs[99] }}| {{ xs[::2] }} {{ (1, 2, 3)[1:] }} {{ xs[-2:] }} {{ xs[10:20] }} {{ xs[:] }} {{ xs[true] }}
{{ xs[::0] }}
{{ xs['a':] }}
{{ xs[1.5] }}| {{ xs['0'] }}| {{ xs[none] }}| {{ xs[missing] }}|
{{ xs[none:none] }} {{ xs[none:2] }} {{ xs[1:none:none] }} {{ 'abc'[true:] }}
{{ none[0] }}| {{ 5[0] }}| {{ none.x }}| {{ 5.x }}
{{ missing.x }}
{{ missing['x'] }}
{{ missing[0] }}
{{ missing() }}
{{ missing[1:] }}
{{ nil[1:] }}
{{ d[1:] }}
{{ xs[99].foo }}
{{ d.a }} {{ d['a'] }} {{ d.items is mapping }} {{ d['items'] }} {{ d.n.deep[1].er }} {{ d.nope }}| {{ d['nope'] }}| {{ d.n['deep'][0] }} {{ nested.1.0 }} {{ nested[1][0] }} {{ nested.5 }}|
{{ d.nope.x }}
{{ d.get('a') }} {{ d.get('zz') }} {{ d.get('zz', 5) }} {{ d.keys()|list }} {{ d.values()|list|length }} {{ d.items()|list }}
{{ d.keys() }} {{ empty_dict.items() }} {{ {'a': 1}.values() }} {{ d.items()|length }} {{ 'a' in d.keys() }} {{ d.keys()[0] }}|
{{ range(3) }} {{ range(1, 4)|list }} {{ range(5, 0, -2)|list }} {{ range(0)|list }} {{ range(3)[1] }} {{ range(10)|length }} {{ 2 in range(3) }} {{ range(1, 10, 3) }}
{{ range(1.5) }}
{{ range() }}
{{ range(100001)|length }}
{{ range(5, 1)|list }} {{ range(-3)|list }} {{ range(3)|sum }} {{ range(3)[::-1]|list }}
{{ range(1, 5, 0) }}
{% for x in xs %}{{ x }},{% endfor %} {% for c in 'aß東' %}[{{ c }}]{% endfor %} {% for k in d %}{{ k }} {% endfor %}
{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %} {% for a, b in nested %}{{ a }}-{{ b }} {% endfor %} {% for (a, b) in nested %}{{ a + b }} {% endfor %}
{% for x in missing %}x{% else %}none{% endfor %} {% for x in [] %}x{% else %}empty{% endfor %} {% for x in xs %}{{ x }}{% else %}no{% endfor %}
{% for x in none %}x{% endfor %}
{% for x in 5 %}x{% endfor %}
{% for a, b in xs %}x{% endfor %}
{% for a, b, c in nested %}x{% endfor %}
{% for x in xs if x > 1 %}{{ loop.index }}:{{ x }}/{{ loop.length }} {% endfor %} {% for x in xs if x > 9 %}x{% else %}nothing{% endfor %}
{% for x in xs %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }} {{ loop.previtem }}|{{ loop.nextitem }}|{{ loop.depth }}{{ loop.depth0 }};{% endfor %}
{% for x in xs %}{{ loop.cycle('a', 'b') }}{{ loop.changed(x > 1) }} {% endfor %} {% for x in xs %}{{ loop.nope }}|{% endfor %}
{% for x in xs %}{{ loop.previtem is defined }}{{ loop.nextitem is defined }}{{ loop.nextitem.x if loop.nextitem is mapping else '-' }} {% endfor %}
{% for x in xs %}{% for y in xs %}{{ loop.index }}{% endfor %}:{{ loop.index }} {% endfor %} {% for x in xs %}{% set outer = loop %}{% for y in ys %}{{ outer.index }}{{ loop.index }} {% endfor %}{% endfor %}
{% for x in xs %}{% if x == 1 %}{% break %}{% endif %}{{ x }}{% else %}e{% endfor %} {% for x in xs %}{% if x == 1 %}{% continue %}{% endif %}{{ x }}{% else %}e{% endfor %}
{% for x in [1] %}{% break %}{% else %}else after break{% endfor %} {% for x in xs %}{% continue %}{% else %}else after continue{% endfor %}
{% for n in tree recursive %}{{ n.v }}({{ loop.depth }}){% if n.kids %}[{{ loop(n.kids) }}]{% endif %}{% endfor %}
{% for n in tree recursive %}{{ n.v }}{{ loop(n.kids) }}{% else %}.{% endfor %}
{% for x in xs %}{{ loop(x) }}{% endfor %}
{% for x in xs|map('string') %}{{ loop.index }}/{{ loop.length }}{{ loop.last }} {% endfor %} {% for x in xs|reverse %}{{ x }}{% endfor %}
{% set x = 1 %}{% for y in xs %}{% set x = y %}{{ x }}{% endfor %}{{ x }} {% for y in xs %}{{ x }}{% set x = y * 10 %}{{ x }} {% endfor %}
{% set ns = namespace(x=1) %}{% for y in xs %}{% set ns.x = ns.x + y %}{% endfor %}{{ ns.x }} {{ ns['x'] }} {{ ns.nope }}| {{ ns is mapping }}
{% set ns = namespace({'a': 1}, b=2) %}{{ ns.a }}{{ ns.b }} {% set ns.c = [1] %}{{ ns.c }}
{% set d.x = 1 %}
{% set nope.x = 1 %}
{% set a, b = 1, 2 %}{{ a }}{{ b }} {% set a, b = b, a %}{{ a }}{{ b }} {% set t = 1, 2 %}{{ t }} {% set (a, b) = 'xy' %}{{ a }}{{ b }}
{% set a, b = 1, 2, 3 %}
{% set a, b = 1 %}
{% set z %}block {{ i }}{% endset %}[{{ z }}] {% set z | upper %}block {{ i }}{% endset %}[{{ z }}] {% set z|trim|length %} x {% endset %}{{ z }}
{% set z %}{% set inner = 1 %}{{ inner }}{% endset %}{{ z }}{{ inner }}|
{% if no %}a{% elif nil %}b{% elif yes %}c{% else %}d{% endif %} {% if missing %}a{% else %}b{% endif %} {% if xs and d %}t{% endif %} {% if no %}x{% endif %}
{% if yes %}{% set v = 1 %}{% else %}{% set v = 2 %}{% endif %}{{ v }} {% if no %}{% set w = 1 %}{% endif %}{{ w }}| {% if no %}{% set i = 99 %}{% endif %}{{ i }} {% if yes %}{% set i = 98 %}{% endif %}{{ i }}
{{ x }}{% set x = 5 %}{{ x }} {% for y in xs %}{{ x }}{% if y == 1 %}{% set x = y %}{% endif %}{{ x }} {% endfor %}{{ x }}
{% macro m(a, b=2, c='x') %}{{ a }}{{ b }}{{ c }}|{% endmacro %}{{ m(1) }}{{ m(1, 3) }}{{ m(1, c=5) }}{{ m(b=1, a=0) }}{{ m() }}{{ m(*[7, 8]) }}{{ m(**{'a': 'k'}) }}
{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, 2) }}
{% macro m(a) %}{{ a }}{% endmacro %}{{ m(z=2) }}
{% macro m(a, a) %}{{ a }}{% endmacro %}
{% macro m(a, b=a) %}{{ b }}{% endmacro %}[{{ m(1) }}] {% macro n(a=b, b=2) %}{{ a }}-{{ b }}{% endmacro %}[{{ n() }}]
{% macro f(n) %}{{ n }}{% if n > 0 %},{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(5) }}
{% macro v() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ v(1, 2, x=3) }} {% macro w(a) %}{{ a }}{{ varargs|length }}{% endmacro %}{{ w(1, 2, 3) }}
{% macro m() %}<{{ caller() }}>{% endmacro %}{% call m() %}in {{ i }}{% endcall %} {% macro m2(x) %}{% for k in x %}{{ caller(k, loop.index) }}{% endfor %}{% endmacro %}{% call(k, n=0) m2(xs) %}[{{ k }}{{ n }}]{% endcall %}
{% macro m() %}{{ caller() }}{% endmacro %}{{ m() }}
{% macro m() %}x{% endmacro %}{% call m() %}y{% endcall %}
{% macro outer() %}{% macro inner(x) %}{{ x }}{{ i }}{% endmacro %}{{ inner(1) }}{% endmacro %}{{ outer() }}
{% macro m() %}{{ later }}{% endmacro %}{% set later = 'L' %}{{ m() }} {% for later in xs %}{{ m() }}{% endfor %}
{{ m() }}{% macro m() %}x{% endmacro %}
{% macro m() %}{% set i = 5 %}{{ i }}{% endmacro %}{{ m() }}{{ i }} {% macro p(x) %}{{ x|upper }}{% endmacro %}{{ p('a') ~ p('b') }} {{ p('abc')|length }} {{ p }}|{{ m is callable }}
{% filter upper %}abc {{ s }}{% endfilter %} {% filter trim|replace('a', 'b') %} aaa {% endfilter %} {% filter indent(2) %}a
b
{% endfilter %}
{% filter length %}abc{% endfilter %}
{% generation %}gen {{ i }}{% set i = 1 %}{% endgeneration %}{{ i }}
{# comment #}a{# multi
line #}b {#- trim -#} c {% raw %}{{ raw }} {% if %}{% endraw %} d{%- raw -%} x {%- endraw -%} e
{{ "a" "b" 'c' }} {{ "esc \n\t\\ \" ' \x41 \u00e9 \101 \z" }} {{ 'it\'s' }} {{ "new
line" }}
{{ 0x1F }} {{ 0b101 }} {{ 0o17 }} {{ 1_000 }} {{ 1_0.5_0 }} {{ 1e3 }} {{ 1.5E-3 }} {{ 00 }}
{{ xs.0 }} {{ 1.5.x }}|
{{ s|upper }} {{ s|lower }} {{ 'hELLO wORLD-foo (bar'|title }} {{ 'hELLO'|capitalize }} {{ uni|upper }} {{ uni|lower }} {{ uni|capitalize }} {{ uni|title }}
{{ t|trim }}| {{ 'xxaxx'|trim('x') }} {{ '--a-'|trim('-') }} {{ 5|trim }} {{ none|trim }} {{ missing|trim }}| {{ '\u00a0a\u3000'|trim }}|
{{ s|length }} {{ xs|length }} {{ d|count }} {{ missing|length }} {{ empty|length }} {{ '東京'|length }}
{{ 5|length }}
{{ none|length }}
{{ (xs|map('string'))|length }}
{{ xs|first }} {{ xs|last }} {{ []|first }}| {{ []|last }}| {{ 'abc'|first }} {{ 'abc'|last }} {{ d|first }} {{ d|last }} {{ ''|first is defined }} {{ missing|first }}|{{ missing|last }}|
{{ (xs|map('string'))|last }}
{{ 5|first }}
{{ xs|join }} {{ xs|join(', ') }} {{ ys|join('-') }} {{ people|join(',', attribute='name') }} {{ 'abc'|join('.') }} {{ d|join(',') }} {{ missing|join(',') }}| {{ mixed|join('|') }} {{ xs|join(0) }} {{ [missing, 1]|join(',') }}
{{ 5|join }}
{{ xs|sort }} {{ ys|sort }} {{ ys|sort(case_sensitive=true) }} {{ xs|sort(reverse=true) }} {{ people|sort(attribute='age')|map(attribute='name')|list }} {{ people|sort(attribute='age,name')|map(attribute='name')|join }} {{ 'hello'|sort|join }} {{ d|sort }}
{{ mixed|sort }}
{{ people|sort }}
{{ xs|reverse|list }} {{ 'abc'|reverse }} {{ xs|reverse|first }} {{ (1, 2)|reverse|list }} {{ (xs|map('string')|reverse)|list }} {{ missing|reverse|list }}
{{ 5|reverse }}
{{ xs|min }} {{ xs|max }} {{ ys|min }} {{ ys|max }} {{ []|min }}| {{ people|max(attribute='age') }} {{ ys|max(true) }} {{ 'hello'|max }}
{{ xs|sum }} {{ people|sum(attribute='age') }} {{ []|sum }} {{ xs|sum(start=10) }} {{ [1.5, 2]|sum }} {{ nested|sum(start=[]) }}
{{ ys|sum }}
{{ xs|list }} {{ 'ab'|list }} {{ d|list }} {{ missing|list }} {{ range(2)|list }} {{ (1, 2)|list }}
{{ 5|list }}
{{ ys|unique|list }} {{ ys|unique(true)|list }} {{ people|unique(attribute='age')|map(attribute='name')|list }} {{ [1, 1.0, true, 2]|unique|list }} {{ missing|unique|list }}
{{ nested|unique|list }}
{{ xs|map('string')|list }} {{ ys|map('upper')|join }} {{ people|map(attribute='name')|list }} {{ people|map(attribute='address.city')|list }} {{ people|map(attribute='address.city', default='?')|list }} {{ people|map(attribute='tags.0', default='-')|list }} {{ nested|map('first')|list }} {{ nested|map(attribute=1)|list }} {{ xs|map('default', 'x')|list }} {{ ys|map('replace', 'a', 'Z')|list }} {{ []|map('nope')|list }}
{{ people|map(attribute='address.city.x')|list }}
{{ xs|map('nope')|list }}
{{ xs|map|list }}
{{ xs|select|list }} {{ [0, 1, '', 'a', none]|select|list }} {{ xs|select('odd')|list }} {{ xs|reject('odd')|list }} {{ xs|select('>', 1)|list }} {{ ys|reject('equalto', 'A')|list }} {{ xs|select('in', [1, 2])|list }} {{ missing|select|list }} {{ xs|reject('eq', 1)|join(',') }} {{ [1, 'a', none]|select('string')|list }}
{{ xs|select('nope')|list }}
{{ people|selectattr('tags')|map(attribute='name')|list }} {{ people|selectattr('age', 'equalto', 31)|list|length }} {{ people|rejectattr('age', 'gt', 30)|map(attribute='name')|list }} {{ people|selectattr('address')|list|length }} {{ people|selectattr('address.city', 'defined')|list|length }} {{ people|selectattr('name', 'eq', 'Cy')|first }} {{ people|rejectattr('tags')|list|length }}
{{ people|selectattr|list }}
{{ people|selectattr('age', 'equalto', 31)|length }}
{{ people|selectattr('address.city')|list|length }}
{{ d|items|list }} {{ missing|items|list }} {% for k, v in d|items %}{{ k }}{% endfor %}
{{ xs|items|list }}
{{ none|items }}
{{ d|dictsort }} {{ d|dictsort(true) }} {{ {'b': 2, 'a': 3}|dictsort(by='value') }} {{ d|dictsort(reverse=true)|first }}
{{ d|dictsort(by='value') }}
{{ xs|dictsort }}
{{ people|groupby('age') }}
{% for g in people|groupby('age') %}{{ g.grouper }}: {{ g.list|map(attribute='name')|join(',') }};{% endfor %} {% for age, members in people|groupby('age') %}{{ age }}{{ members|length }} {% endfor %} {{ people|groupby('name')|map('first')|list }}
{{ range(7)|batch(3)|list }} {{ range(7)|batch(3, 'x')|list }} {{ range(7)|slice(3)|list }} {{ range(7)|slice(3, 'x')|list }}
{{ missing|default('q') }} {{ none|default('q') }} {{ ''|default('q', true) }} {{ ''|default('q') }}| {{ missing|d }}| {{ 0|default(5, boolean=true) }} {{ d.nope|default('x') }} {{ missing|default(missing2) }}|
{{ missing.x|default('q') }}
{{ s|replace('l', 'L') }} {{ s|replace('l', 'L', 1) }} {{ 'aaa'|replace('a', '') }}| {{ 'abc'|replace('', '-') }} {{ 5|replace(5, 6) }} {{ 'aaa'|replace('aa', 'b') }}
{{ 'a\nb\n\nc'|indent }} | {{ 'a\nb'|indent(2, true) }} | {{ 'a\n\nb'|indent(2, blank=true) }} | {{ 'a\nb'|indent('>>') }} | {{ ''|indent }} | {{ 'a\n'|indent }}|
{{ 5|indent }}
{{ 5|string }}{{ 2.0|string }} {{ none|string }} {{ xs|string }} {{ missing|string }}| {{ yes|string ~ 'x' }}
{{ '12'|int }} {{ ' 12 '|int }} {{ '12.7'|int }} {{ 'x'|int }} {{ 'x'|int(5) }} {{ 2.9|int }} {{ -2.9|int }} {{ true|int }} {{ none|int }} {{ '0x1f'|int(base=16) }} {{ 'ff'|int(0, 16) }} {{ '1_000'|int }} {{ []|int(9) }} {{ '1e3'|int }}
{{ missing|int }}
{{ '1.5'|float }} {{ 'x'|float }} {{ 'x'|float(1) }} {{ 3|float }} {{ true|float }} {{ none|float }} {{ '1e3'|float }} {{ 'inf'|float }} {{ '-1_0.5'|float }} {{ 'nan'|float }}
{{ 2.5|round }} {{ 3.5|round }} {{ 2.675|round(2) }} {{ 42.55|round(1, 'floor') }} {{ 42.55|round(1, 'ceil') }} {{ 42|round }} {{ 1234|round(-2) }} {{ 2.5|round|int }} {{ 1.005|round(2) }} {{ 1e20|round(1) }} {{ -0.4|round }} {{ 7|round(1, 'floor') }}
{{ 'x'|round }}
{{ -5|abs }} {{ -2.5|abs }} {{ true|abs }} {{ (-5)|abs }}
{{ 'x'|abs }}
{{ html|escape }} {{ html|e }} {{ 5|e }} {{ html|safe }} {{ html|e|e }} {{ (html|safe) ~ '<' }} {{ (html|safe) + '<' }} {{ '<' + (html|e) }} {{ html|forceescape }} {{ html|e|length }} {{ [html|safe] }} {{ html|safe|upper }} {{ (html|safe)|replace('a', '<') }}
{{ s|wordcount }} {{ 'a-b c_d  é'|wordcount }} {{ s|center(20) }}| {{ 'ab'|center(5) }}| {{ 'abc'|center(6) }}| {{ '%s-%d'|format('a', 5) }} {{ '%(x)s'|format(x=3) }}
{{ 'foo bar baz qux'|truncate(9) }} {{ 'foo bar baz qux'|truncate(9, true) }} {{ 'foo bar baz qux'|truncate(11) }} {{ 'foo bar baz qux'|truncate(11, false, '...', 0) }} {{ 'short'|truncate }}
{{ d|attr('keys') is defined }} {{ d|attr('a') }}| {{ s|attr('upper')() }}
{{ s|tojson }} {{ q|tojson }} {{ uni|tojson(ensure_ascii=true) }} {{ d|tojson }} {{ mixed|tojson }} {{ (1, 'a')|tojson }} {{ big|tojson }} {{ whole|tojson }} {{ tiny|tojson }} {{ {1: 2, none: 3, true: 4, 1.5: 5}|tojson }} {{ ''|tojson }} {{ html|tojson }}
{{ d|tojson(indent=2) }} {{ []|tojson(indent=2) }} {{ {}|tojson(indent=4) }} {{ nested|tojson(indent=0) }} {{ d|tojson(indent='\t') }} {{ [[], {}]|tojson(indent=1) }}
{{ d|tojson(separators=(',', ':')) }} {{ d.n|tojson(sort_keys=true) }} {{ {'b': 1, 'a': 2}|tojson(sort_keys=true) }} {{ {'b': [1]}|tojson(indent=2, separators=(', ', ' = ')) }} {{ xs|tojson(true) }} {{ d|tojson(false, 2) }}
{{ missing|tojson }}
{{ [missing]|tojson }}
{{ range(3)|tojson }}
{{ d.items()|tojson }}
{{ {(1, 2): 3}|tojson }}
{{ xs|tojson(nope=1) }}
{{ ('1e400'|float)|tojson }} {{ 'é\x7f\u2028'|length }}
{{ '\x7f'|tojson(ensure_ascii=true) }} {{ '\x1f\x08\x0c/'|tojson }} {{ '👩'|tojson(ensure_ascii=true) }}
{{ csv.split(',') }} {{ csv.split(',', 1) }} {{ t.split() }} {{ ' a b  c '.split(none, 1) }} {{ csv.rsplit(',', 1) }} {{ ' a b  c '.rsplit(none, 1) }} {{ ''.split() }} {{ ''.split(',') }} {{ 'a--b'.split('--')[-1] }} {{ 'a b c'.split(maxsplit=1) }} {{ 'abcabc'.rsplit('b') }} {{ csv.split(sep=',')|last }}
{{ csv.split('') }}
{{ csv.split(5) }}
{{ t.strip() }}| {{ t.lstrip() }}| {{ t.rstrip() }}| {{ 'xyax'.strip('xy') }} {{ '\n\na\n'.lstrip('\n') }}| {{ 'aßa'.strip('aß') }}| {{ 'abc'.strip('') }} {{ 'a'.strip(none) }} {{ '\x1c\u2003a\x85'.strip() }}|
{{ s.startswith('He') }} {{ s.startswith(('x', 'H')) }} {{ s.endswith('ld') }} {{ s.endswith(('a', 'b')) }} {{ s.startswith('l', 2) }} {{ s.startswith('') }} {{ 'abc'.endswith('b', 0, 2) }} {{ 'é東'.startswith('東', 1) }} {{ 'abc'.startswith('', 3) }} {{ 'abc'.startswith('', 4) }} {{ 'abc'.startswith('b', -2) }}
{{ s.startswith(5) }}
{{ s.startswith(['H']) }}
{{ s.find('l') }} {{ s.rfind('l') }} {{ s.find('zz') }} {{ uni.find('東') }} {{ s.find('l', 5) }} {{ s.index('o') }} {{ s.count('l') }} {{ s.count('') }} {{ s.find('') }} {{ 'aXbX'.rfind('X', 0, 2) }} {{ 'aaa'.count('aa') }} {{ s.find('l', -2) }}
{{ s.index('zz') }}
{{ s.replace('l', 'L') }} {{ s.replace('l', 'L', 1) }} {{ 'abc'.replace('', '.') }} {{ 'abc'.replace('', '.', 2) }} {{ 'aa'.replace('a', 'aa', -1) }} {{ 'a'.replace('a', 'b', 0) }}
{{ s.upper() }} {{ s.lower() }} {{ 'hello world-x'.title() }} {{ "it's a dog's".title() }} {{ 'hELLO'.capitalize() }} {{ 'aB'.swapcase() }} {{ uni.upper() }} {{ uni.lower() }} {{ uni.title() }} {{ uni.casefold() }} {{ 'ß'.capitalize() }} {{ 'ǆ'.title() }} {{ 'ﬁn'.capitalize() }}
{{ ','.join(ys) }} {{ ''.join(['a']) }} {{ ', '.join('abc') }} {{ '-'.join(d) }} {{ ','.join([]) }}|
{{ ','.join(xs) }}
{{ ','.join(missing) }}|
{{ '5'.isdigit() }} {{ '²'.isdigit() }} {{ '²'.isdecimal() }} {{ '½'.isnumeric() }} {{ 'ab'.isalpha() }} {{ 'a1'.isalnum() }} {{ ' '.isspace() }} {{ ''.isspace() }} {{ 'aB'.islower() }} {{ 'AB1'.isupper() }} {{ '1'.isupper() }} {{ 'Ab Cd'.istitle() }} {{ 'é'.isascii() }} {{ 'a\n'.isprintable() }} {{ '東'.isalpha() }}
{{ 'a\nb\r\nc\rd'.splitlines() }} {{ 'a\n'.splitlines(true) }} {{ ''.splitlines() }} {{ 'a\x0bb\u2028c'.splitlines() }}
{{ 'a-b-c'.partition('-') }} {{ 'a-b-c'.rpartition('-') }} {{ 'abc'.partition('-') }} {{ 'abc'.rpartition('-') }} {{ 'abc'.removeprefix('a') }} {{ 'abc'.removesuffix('c') }} {{ 'abc'.removeprefix('x') }}
{{ 'ab'.ljust(5) }}| {{ 'ab'.rjust(5, '.') }}| {{ 'ab'.center(5, '*') }}| {{ 'abc'.center(6, '*') }}| {{ '5'.zfill(3) }} {{ '-5'.zfill(4) }} {{ '東'.ljust(3, '京') }}
{{ 'ab'.ljust(5, 'xy') }}
{{ s.nope() }}
{{ s.nope }}| {{ s.__class__ }}| {{ d.__len__ }}| {{ xs.append is defined }}| {{ s.upper is defined }} {{ s.split is callable }} {{ d.get is defined }}
{{ '{} {}'.format(1, 'a') }} {{ '{0}{1}{0}'.format('a', 'b') }} {{ '{x}'.format(x=5) }} {{ '{:>5}|{:<5}|{:^5}'.format('a', 'b', 'c') }} {{ '{:05d} {:.2f} {:,} {:x} {:+}'.format(42, 3.14159, 1234567, 255, 5) }} {{ '{{}}'.format() }} {{ '{d[a]}'.format(d=d) }} {{ '{!r}'.format('a') }} {{ '{:.3}'.format('abcdef') }} {{ '{:e} {:g} {:%}'.format(12345.678, 0.00001, 0.25) }} {{ '{:*^9}'.format('mid') }} {{ '{}'.format(none) }} {{ '{:{w}}|'.format('a', w=4) }}
{{ '{}'.format() }}
{{ '{x}'.format() }}
{{ '{'.format(1) }}
{{ '%s %s' % ('a', 1) }} {{ '%d' % 5 }} {{ '%5.1f|' % 3.14159 }} {{ '%-5s|' % 'a' }} {{ '%05d' % 42 }} {{ '%x %X %o' % (255, 255, 8) }} {{ '%%' % () }} {{ '%(a)s' % {'a': 1} }} {{ '%r' % 'x' }} {{ '%s' % none }} {{ '%s' % [[1, 2]] }} {{ '%+d % d' % (5, 5) }} {{ '%e' % 12345.678 }} {{ '%g' % 0.00001 }} {{ '%c' % 65 }} {{ '%.2s|' % 'abc' }} {{ '%d' % 3.9 }} {{ '%#x' % 255 }} {{ '%*d' % (5, 42) }}
{{ '%s %s' % ('a',) }}
{{ '%s' % ('a', 'b') }}
{{ '%d' % 'a' }}
{{ '%z' % 1 }}
{{ 'a' % 1 }}
{{ missing is defined }} {{ s is defined }} {{ none is defined }} {{ d.nope is defined }} {{ d.a is defined }} {{ missing is undefined }} {{ xs[9] is defined }}
{{ none is none }} {{ missing is none }} {{ 1 is number }} {{ true is number }} {{ 1.5 is number }} {{ 'a' is number }} {{ 1 is integer }} {{ true is integer }} {{ 1.5 is float }} {{ true is boolean }} {{ 1 is boolean }} {{ true is true }} {{ 1 is true }} {{ false is false }} {{ 0 is false }}
{{ s is string }} {{ 1 is string }} {{ (s|safe) is string }} {{ d is mapping }} {{ xs is mapping }} {{ xs is sequence }} {{ s is sequence }} {{ d is sequence }} {{ 1 is sequence }} {{ missing is sequence }} {{ (1,) is sequence }} {{ xs is iterable }} {{ s is iterable }} {{ 5 is iterable }} {{ missing is iterable }} {{ none is iterable }} {{ d.items() is sequence }} {{ (xs|map('string')) is iterable }} {{ (xs|map('string')) is sequence }} {{ range(3) is sequence }}
{{ 3 is odd }} {{ 3 is even }} {{ 4 is divisibleby 2 }} {{ 4 is divisibleby(3) }} {{ 1 is eq 1 }} {{ 1 is equalto(2) }} {{ 1 is ne 2 }} {{ 1 is lt 2 }} {{ 1 is ge 1 }} {{ 2 is gt(1) }} {{ 1 is in [1, 2] }} {{ 'a' is in 'abc' }} {{ 1 is not in [1] }} {{ 1 is sameas 1 }} {{ none is sameas none }} {{ 'abc' is lower }} {{ 'ABC' is upper }} {{ 1 is not string }} {{ 1 is lessthan 2 }} {{ 2.0 is even }} {{ 'upper' is filter }} {{ 'odd' is test }} {{ 'zz' is filter }} {{ (html|e) is escaped }} {{ html is escaped }} {{ range is callable }} {{ 5 is callable }} {{ 1 is == 1 }}
{{ 1 is ==(1) }}
{{ 'a' is odd }}
{{ missing is odd }}
{{ 1 is nope }}
{{ 1 if yes else (1 is nope) }} {{ 1|nope if no else 2 }} {% if no %}{{ 1|nope }}{% endif %}
{% if yes %}{{ 1|nope }}{% endif %}
{% for x in [] %}{{ x|nope }}{% endfor %}
{% if yes %}{% for x in [] %}{{ x|nope }}{% endfor %}{% endif %}
{{ 1|nope }}
{{ x is defined and x is string }} {{ not x is defined }} {{ x is not defined or y }} {{ (x is defined) ~ 'a' }} {{ s is string and s|length > 3 }} {{ 'yes' if s is string else 'no' }}
{{ dict(a=1, b='x') }} {{ dict({'a': 1}, b=2) }} {{ dict([('a', 1)]) }} {{ dict() }}
{{ dict(5) }}
{{ strftime_now('%Y-%m-%d') }} {{ strftime_now('%d %b %Y') }} {{ strftime_now('%B %d, %Y %H:%M:%S %A %a %j %y %p %I') }} {{ strftime_now is defined }} {{ strftime_now('') }}|
{{ raise_exception('boom ' ~ i) }}
{% if messages|length == 0 %}{{ raise_exception("No messages: it's \"empty\"\n") }}{% endif %}
before {{ raise_exception(5) }} after
{% macro m() %}{{ raise_exception('inside') }}{% endmacro %}{{ m() }}
{% set j = joiner('; ') %}{% for x in xs %}{{ j() }}{{ x }}{% endfor %} {% set c = cycler('a', 'b') %}{{ c.next() }}{{ c.current }}{{ c.next() }}{{ c.next() }}{{ c.reset() }}{{ c.current }}
  {% if yes %}
    line
  {% endif %}
x  {% if yes %}  y  {% endif %}  z
{%- if yes -%}  tight  {%- endif -%}  end
{%+ if yes %}  plus{% endif %} {% if yes +%}
kept{% endif %}
{{ i }}
{{- i -}}
{# c #}
   {#- c2 -#}
text  {{- ' a ' -}}  text
{% set x = 1 -%}
   {% set y = 2 %}
{{ x }}{{ y }}
{% for x in xs -%}
  {{ x }}
{%- endfor %}
{{ {'a': {'b': 1}}['a']['b'] }} {{ {'a': 1}.a }} {{ {'x': [1, 2]}['x'][1] }} {{ [[1, 2], [3]][0][1] }} {{ ('a', 'b')[1] }} {{ 'abc'[1] }}
{{ {'a': 1, 'a': 2} }} {{ {1: 'a', true: 'b', 1.0: 'c'} }} {{ {'k': missing} }} {{ [missing] }} {{ {[1]: 2} }}
{{ {[1]: 2} }}
{{ xs[i:] }} {{ xs[zero] }} {{ xs[neg] }} {{ d[s] }}| {{ d['a' ~ ''] }} {{ {'1': 'a'}[1 ~ ''] }}
{{ loop }}| {{ loop.index }}
{% set loop = 5 %}{{ loop }}
{% for x in xs %}{% set loop = 5 %}{% endfor %}
{% for loop in xs %}{% endfor %}
{{ i if i }} {{ -i }} {{ - i|abs }} {{ -f|round }} {{ not i == 7 }} {{ i + 1|string|length }} {{ (i + 1)|string|length }} {{ i is odd and i > 5 }} {{ -1|abs }}
{{ xs|length > 2 and xs[0] == 3 }} {{ xs|length + 1 }} {{ xs|first + xs|last }} {{ 'a' if xs|length else 'b' }} {{ s|upper ~ '!' }} {{ s|upper + '!' }} {{ xs == [3, 1, 2] }}
{{ 'a' 'b' ~ 'c' }} {{ 'x'.upper().lower()[0].join(['1', '2']) }} {{ s.split(',')[1].strip().upper()|lower }} {{ (s ~ t).strip()[-4:] }} {{ d.n.deep|last|tojson }}
{% set x = namespace(items=[]) %}{% set x.items = x.items + [1] %}{{ x.items }} {{ x.items|length }}
{% set content = 'a</think>b' %}{% if '</think>' in content %}{% set content = content.split('</think>')[-1].lstrip('\n') %}{% endif %}{{ content }}
{%- macro render(schema, depth=0) -%}{%- if schema is mapping -%}{ {%- for k, v in schema.items() -%}{{ k }}:{{ render(v, depth + 1) }}{%- if not loop.last -%},{%- endif -%}{%- endfor -%} }{%- elif schema is iterable and schema is not string -%}[{%- for v in schema -%}{{ render(v, depth + 1) }} {% endfor -%}]{%- else -%}{{ schema|tojson }}@{{ depth }}{%- endif -%}{%- endmacro -%}{{ render(d) }} {{ render(mixed) }}
{% print i %} {% print i, s %}
{{
{{ i
{% if %}
{% if i %}
{% endif %}
{% else %}
{% for %}{% endfor %}
{% for x xs %}{% endfor %}
{% set %}
{% set 1 = 2 %}
{% set x.y.z = 2 %}
{% nope %}
{% include 'x' %}
{% macro %}{% endmacro %}
{% macro m(a=1, b) %}{% endmacro %}
{% call 5 %}{% endcall %}
{% break %}
{% for x in xs %}{% macro m() %}{% break %}{% endmacro %}{% endfor %}
{% for x in xs %}{% set z %}a{% break %}{% endset %}{{ z }}{% endfor %}end
{{ i i }}
{{ (i }}
{{ [1, 2 }}
{{ {'a' 1} }}
{{ 'abc }}
{{ i | }}
{{ i is }}
{{ i. }}
{{ i[ }}
{{ m(a=1, 2) }}
{{ 1 + }}
{{ + }}
{{ ] }}
{{ ) }}
{{ a b }}
{{ i ? 1 : 2 }}
{{ i && 1 }}
{{ $ }}
{{ 1.. }}
{% raw %}x
{# open
{{ '{% if %}' }} {{ "}}" }} {{ '#}' }}
{{ (1, 2,) }} {{ [1, 2,] }} {{ {'a': 1,} }} {{ 1, 2 }} {{ 1, }} {{ (((1))) }}
{{ xs[0,1] }}| {{ d[('a',)] }}|
{{ true }} {{ True }} {{ none }} {{ None }} {{ false and missing.x }} {{ true or missing.x }} {{ TRUE }}|
{{ '%s' % s }} {{ s % () }}
{{ ['a', 'b'] | join(', ') if ys else 'none' }} {{ ['a'] + ['b'] if yes }} {{ ('x' if yes) ~ ('y' if no) }}
{{ xs|map('multiply') }}
{% for a in xs %}{% for b in xs if b > a %}{{ a }}{{ b }} {% endfor %}{% endfor %} {% set ns = namespace(n=0) %}{% for x in range(5) if ns.n < 2 %}{% set ns.n = ns.n + 1 %}{{ x }}{% endfor %}
{% for k, v in people[0]|dictsort %}{{ k }}={{ v }} {% endfor %} {% for p in people if p.tags %}{{ p.name }}{{ ', ' if not loop.last }}{% endfor %}
{% set x = 5 %}{% macro m(x=x) %}{{ x }}{% endmacro %}[{{ m() }}{{ m(1) }}]
{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}B{% endmacro %}{{ a() }}
{% call(x) undefined_macro() %}{% endcall %}
{{ people[0].name.upper() }} {{ people|map(attribute='name')|map('lower')|sort|join('/') }} {{ people[-1]['address']|default({'city': 'none'})|tojson }}
{% if xs is iterable and xs is not mapping and xs is not string %}list{% endif %} {% if 'k' in mixed[-1] %}has{% endif %} {% if (d.n).deep %}deep{% endif %}
""".strip("\n").split("\n")

# Multi-line features were split by the line; these are joined again by hand.
BLOCKS = [
    "a\n{% if yes %}\nb\n{% endif %}\nc\n",
    "  {% for x in xs %}\n  {{ x }}\n  {% endfor %}\nend",
    "a\r\nb\rc\n\n",
    "{% if yes %}\r\n x\r\n{% endif %}\r\n",
    "\n\n{%- if yes %}\n\n x{% endif -%}\n\n",
    "   {# c #}\nx\n   {# c #} y\n",
    "{{ i }}\n",
    "{{ i }}\n\n",
    "\t {%+ if yes %}x{% endif +%}\n y",
    "{% raw %}\n  {{ x }}\n{% endraw %}\nz",
    "   {% raw %} a {% endraw %}   \n",
    "a {%- raw %} b {% endraw -%} c",
    "{% set x %}\n  text\n{% endset %}[{{ x }}]",
    "{% filter upper %}\n a\n{% endfilter %}\nb",
    "{% macro m(a) %}\n  {{ a }}\n{% endmacro %}\n[{{ m(1) }}]",
    "x {% if yes %} \n y{% endif %} \n z",
    "\u00a0{% if yes %}nbsp{% endif %}\u3000\n",
    "x\n\u2003{% if yes %}wide{% endif %}",
    "{{ 'a\nb' }}|{{ \"a\r\nb\" }}",
    "plain",
    "{",
    "{ {",
    "}}",
    "%}",
    "{%",
    "{{",
    "{#",
    "{{ 1 }}{",
]


class Generator:
    """Random templates over CONTEXT. Same seed, same templates."""

    NAMES = list(CONTEXT) + ["missing", "x", "y", "ns"]
    INTS = ["0", "1", "2", "-1", "3", "10"]
    STRINGS = ["'a'", "'b'", "', '", "''", "'Hello'", "'ß東'", "' x '", "'l'", "'name'", "'%s'"]
    FILTERS = [
        "length", "upper", "lower", "title", "capitalize", "trim", "string", "list", "first",
        "last", "join", "join(', ')", "sort", "reverse", "reverse|list", "unique|list", "min",
        "max", "sum", "tojson", "tojson(indent=2)", "int", "float", "abs", "round", "default('q')",
        "default('q', true)", "replace('l', 'L')", "items|list", "dictsort", "map('string')|list",
        "map(attribute='name')|list", "select|list", "reject('none')|list", "select('string')|list",
        "selectattr('age')|list", "indent(2)", "wordcount", "escape", "safe", "batch(2)|list",
        "count", "map('upper')|join('-')", "sort(reverse=true)", "map('length')|list",
        "groupby('age')", "center(9)", "truncate(6)",
    ]
    TESTS = [
        "defined", "undefined", "none", "string", "number", "integer", "float", "boolean",
        "mapping", "sequence", "iterable", "true", "false", "odd", "even", "lower", "upper",
        "callable", "eq 1", "in [1, 'a']", "divisibleby 3", "ne none", "gt 1",
    ]
    METHODS = [
        "strip()", "split()", "split(',')", "split(',', 1)[0]", "upper()", "lower()", "title()",
        "startswith('H')", "endswith(('d', 'x'))", "replace('l', '')", "find('l')", "lstrip(' H')",
        "rstrip()", "splitlines()", "isdigit()", "get('a')", "get('zz', 1)", "keys()|list",
        "items()|list", "values()|list", "count('l')", "index(1)", "join(['p', 'q'])",
        "partition(',')", "rsplit(',', 1)", "capitalize()", "zfill(5)", "format(1)",
    ]
    BINARY = ["+", "-", "*", "/", "//", "%", "~", "==", "!=", "<", "<=", ">", ">=", "in", "not in",
              "and", "or"]
    FIELDS = ["name", "age", "tags", "a", "b", "n", "items", "keys", "nope", "0", "deep"]

    def __init__(self, seed):
        self.random = random.Random(seed)

    def pick(self, options):
        return self.random.choice(options)

    def expression(self, depth=0):
        roll = self.random.random()
        if depth > 3 or roll < 0.25:
            return self.atom(depth)
        inner = lambda: self.expression(depth + 1)  # noqa: E731
        choices = [
            lambda: f"{inner()} {self.pick(self.BINARY)} {inner()}",
            lambda: f"({inner()}) {self.pick(self.BINARY)} ({inner()})",
            lambda: f"{self.postfix(depth)}|{self.pick(self.FILTERS)}",
            lambda: f"{self.postfix(depth)}|{self.pick(self.FILTERS)}",
            lambda: f"({inner()})|{self.pick(self.FILTERS)}|{self.pick(self.FILTERS)}",
            lambda: f"{self.postfix(depth)} is {self.pick(['', 'not '])}{self.pick(self.TESTS)}",
            lambda: f"{inner()} if {inner()} else {inner()}",
            lambda: f"({inner()} if {inner()})",
            lambda: f"not {inner()}",
            lambda: f"-{self.atom(depth)}",
            lambda: self.postfix(depth),
            lambda: self.postfix(depth),
        ]
        return self.pick(choices)()

    def postfix(self, depth):
        base = self.pick(self.NAMES) if self.random.random() < 0.8 else f"({self.expression(depth + 1)})"
        for _ in range(self.random.randrange(3)):
            base += self.pick([
                lambda: "." + self.pick(self.METHODS),
                lambda: "." + self.pick(self.FIELDS),
                lambda: f"[{self.pick(self.INTS)}]",
                lambda: f"['{self.pick(self.FIELDS)}']",
                lambda: "[" + self.pick(["1:", ":-1", "::-1", "::2", "-2:", "5:1", ":"]) + "]",
                lambda: f"[{self.expression(depth + 2)}]",
            ])()
        return base

    def atom(self, depth):
        roll = self.random.random()
        if roll < 0.5:
            return self.pick(self.NAMES)
        if roll < 0.65:
            return self.pick(self.STRINGS)
        if roll < 0.8:
            return self.pick(self.INTS + ["2.5", "1e3", "true", "none"])
        if depth > 3:
            return "xs"
        items = ", ".join(self.expression(depth + 2) for _ in range(self.random.randrange(3)))
        return self.pick([f"[{items}]", f"({items},)" if items else "()",
                          "{'k': " + self.expression(depth + 2) + "}"])

    def statement(self, depth=0):
        roll = self.random.random()
        if depth > 2 or roll < 0.4:
            return "{{ " + self.expression(1) + " }}"
        body = lambda: self.body(depth + 1)  # noqa: E731
        begin = self.pick(["{% ", "{%- "])
        end = self.pick([" %}", " -%}"])
        choices = [
            lambda: f"{begin}if {self.expression(1)}{end}{body()}{{% endif %}}",
            lambda: f"{begin}if {self.expression(1)}{end}{body()}{{% elif {self.expression(2)} %}}"
                    f"{body()}{{% else %}}{body()}{{% endif %}}",
            lambda: f"{begin}for x in {self.postfix(1)}{end}{body()}{{% endfor %}}",
            lambda: f"{begin}for x in {self.postfix(1)}{end}{{{{ loop.index }}}}{body()}"
                    "{{ loop.last }}{% else %}" + body() + "{% endfor %}",
            lambda: f"{begin}for x, y in {self.pick(['d.items()', 'nested', 'd|dictsort'])}{end}"
                    f"{body()}{{% endfor %}}",
            lambda: f"{begin}for x in xs if {self.expression(2)}{end}{body()}{{% endfor %}}",
            lambda: f"{begin}set {self.pick(['x', 'y'])} = {self.expression(1)}{end}",
            lambda: f"{begin}set x{end}{body()}{{% endset %}}",
            lambda: "{% set ns = namespace(v=" + self.expression(2) + ") %}{% set ns.v = "
                    + self.expression(2) + " %}{{ ns.v }}",
            lambda: "{% macro m(x, y=" + self.atom(2) + ") %}" + body() + "{% endmacro %}{{ m("
                    + self.expression(2) + ") }}",
            lambda: "{% filter " + self.pick(["upper", "trim", "replace('a', 'b')"]) + " %}"
                    + body() + "{% endfilter %}",
            lambda: "{% for x in xs %}{% if " + self.expression(2) + " %}{% "
                    + self.pick(["break", "continue"]) + " %}{% endif %}" + body() + "{% endfor %}",
        ]
        return self.pick(choices)()

    def body(self, depth=0):
        texts = ["", "\n", " ", "t\n  ", "|", "\n\n  "]
        parts = []
        for _ in range(1 + self.random.randrange(3)):
            parts.append(self.pick(texts))
            parts.append(self.statement(depth))
        parts.append(self.pick(texts))
        return "".join(parts)


def all_snippets(n_generated, seed):
    yield from FEATURES
    yield from BLOCKS
    generator = Generator(seed)
    for _ in range(n_generated):
        if generator.random.random() < 0.6:
            yield "{{ " + generator.expression() + " }}"
        else:
            yield generator.body()
