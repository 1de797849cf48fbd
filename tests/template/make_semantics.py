"""Writes semantics.json: what jinja2 makes of the expressions that reimplementations get wrong.

    build/venv/bin/python tests/template/make_semantics.py > tests/template/semantics.json

The C test of the same name compares the interpreter with the file, test_semantics.py the file with jinja2. A string
with {% or {{ in it is a template, any other one an expression to be printed.
"""
import copy
import json

import sandbox

CONTEXT = {
    "none_": None,
    "m": {"a": 1, "items": "I", "k": "v", "content": "x", "tool_calls": None},
    "d": {"1": 2, "b": 1, "A": 2},
    "l": [1, "a", None, {"k": "it's"}],
    "n": [3, 1, 2],
    "words": ["b", "A", "a", "B"],
    "rows": [{"role": "user", "n": 1, "t": {"u": [7]}}, {"role": "tool", "n": 0}, {"role": "user", "n": 2}],
    "s": "Hello World",
    "u": "日本語😀é",
    "blank": "\u00a0\u3000\u0085\u001c x \u200b\ufeff",
    "numbers": [1.10, 1e2, -0.0, 1.0, 1e22, 1e16, 1e-5, 0.1, 100000.0, 12345678901234567],
    "j": {"b": 1.0, "a": [True, None, {}], "e": [], "q": "\"\\/<'>&\u007f\u2028\u001f\b\f\n\r\té😀"},
    "big": 9007199254740993,
    "sz": "ß ﬁ İΣ ΑΣ ΣΑΣ. It's o'neil-smith (x) [y] <z> {w}",
}

SECTIONS = {
    "undefined": """
x
x|length
x|list
x|string
x|default('d')
x|items|list
x|join
[x]|join('-')
{% for a in x %}a{% else %}none{% endfor %}
x == none
x == ''
x == y
x != y
x in [1]
'a' in x
x ~ 'a'
x is string
x is iterable
x is sequence
x is mapping
x is callable
not x
x + 'a'
'a' + x
x < 1
x.y
x.y is defined
x[0]
x[1:]
x()
x|tojson
-x
x|int
m.nope is defined
m.nope
m.nope.x
l[9] is defined
l[9]
s[99] is defined
none.y is defined
5 .y is defined
x is defined and x.y
x or 'd'
m.k and m.nope
m.nope or m.k
[x]
{'a': x}
""",
    "none": """
none is defined
none
none|default('d')
none|default('d', true)
''|default('d', true)
0|d(5, boolean=true)
{% for i in none %}{% endfor %}
none|length
'a' + none
'a' in none
none|trim
none ~ 'a'
none|string|length
none|list
none_ is none
m.tool_calls or []
none == none_
""",
    "attribute against item": """
m.items is defined
m['items']
m.items()|list|length
m.k
m['k']
m.get('k')
m.get('nope')
m.get('nope', 3)
{'1': 2}[1] is defined
{1: 'a', 1.0: 'b', true: 'c'}
{1: 'a'}[1.0]
{1: 'a'}[true]
{'a': 1, 'a': 2}
'abc'.0
rows.0.role
rows[0]['t']['u'].0
m.append is defined
l.append
""",
    "arithmetic": """
7/2
6/2
-7//2
-7%3
7%-3
7//-2
-7.5//2
-7.5%2
true + 1
true == 1
1 == 1.0
'1' == 1
'a' < 1
1 < 'a'
[1] + [2]
(1,) + (2,)
[1] + (2,)
'ab' * 3
3 * 'ab'
-1 * 'ab'
[1, 2] * 2
1 in 'abc'
'b' in 'abc'
1 in [true]
2**10
2**-1
2**0.5
1/0
1//0
1%0
9223372036854775807
9223372036854775806 + 1
big + 1
0x1F
0b101
0o17
1_000
1.5e3
2 ** 62
-(2 ** 62)
[1, 2] < [1, 3]
[1, 2] == (1, 2)
{'a': 1} == {'a': 1.0}
'a' - 1
-'a'
+true
-true
1 < 2 < 3
1 < 3 < 2
1 == 1 in [true]
""",
    "precedence": """
'a' ~ 1 + 2
2*3 ~ 4
-1|abs
5 / 2|int
1 + 2|string
-2 ** 2
2 ** 3 ** 2
not x is defined
1 is number == true
'a' in 'ab' and true
not 1 == 2
1 if true else 2 if true else 3
(1 if false)
(1 if false else 2)|string ~ 'x'
1 in [1] == true
not true or true
true or x.y.z
false and x.y.z
-1 - -1
- -1
1 - 1|abs
'a' 'b'
'a' 'b'|upper
s|lower|title is string
s is string and s|length > 3
1 is not none
x is not defined or x
[1, 2, 3][1:]|length
2 is divisibleby 2
3 is eq 3 and 4 is ne 3
'x' is in ['x']
1 is in [2] or true
""",
    "numbers as text": """
numbers
1.0
1e16
1e-5
0.1 + 0.2
1e22
100000.0
123456789012345680.0
1e15
0.0001
0.00001234
-0.0
1e308 * 10
true
none
l
(1,)
()
[]
{}
{'a': [1, (2, 3)]}
['\\n\\t\\\\', "it's", '"', "it's \\"q\\""]
['é\\u200b\\x7f\\u2028😀']
3.7|int
'3.7'|int
'x'|int
'x'|int(9)
' 12 '|int
'1_0'|int
'0x1A'|int(0, 16)
'0x1A'|int(0, 0)
-3.7|int
'1e3'|int
none|int
true|int
'3.5'|float
'x'|float
'x'|float(2)
' nan '|float
'inf'|float
2.5|round
3.5|round
2.675|round(2)
42|round
42.55|round(1, 'floor')
42.51|round(1, 'ceil')
1234.5|round(-2)
1250|round(-2)
-2.5|round
range(3)
range(1, 9, 2)
range(3)|list
range(5, 0, -2)|list
range(100001)
m.keys()
m.values()|list
""",
    "tojson": """
j|tojson
j|tojson(indent=2)
j|tojson(indent=0)
j|tojson(indent='>')
j|tojson(ensure_ascii=true)
j|tojson(true)
j|tojson(separators=(',', ':'))
j|tojson(separators=(',', ':'), indent=1)
j|tojson(sort_keys=true)
{}|tojson(indent=2)
[]|tojson(indent=2)
[{}]|tojson(indent=2)
1.0|tojson
(1, 2)|tojson
{1: 1, true: 2, none: 3, 2.5: 4}|tojson
numbers|tojson
'x'|tojson
x|tojson
[x]|tojson
(n|map('string'))|tojson
(n|map('string')|list)|tojson
m.items()|tojson
range(3)|tojson
(1e308 * 10)|tojson
'é😀'|tojson(ensure_ascii=true)
""",
    "strings": """
u|length
u[1]
u[-1]
u[1:3]
u[::-1]
u[::2]
u[99:]
u[-99:2]
u[3:1]
u[:-1]
s[::0]
s[5:0:-2]
u|list
{% for c in u %}{{ c }}.{% endfor %}
'  a  b '.split()
''.split()
''.split('x')
s.split('')
s.split('o')
s.split('o', 1)
s.split(maxsplit=1)
s.rsplit('o', 1)
' a b '.rsplit(none, 1)
' a b c'.split(none, 1)
'xxabcxx'.strip('x')
'xyabcyx'.strip('yx')
'xxabc'.lstrip('x')
'abcxx'.rstrip('x')
blank.strip()
blank|trim
blank.split()
'ab'|trim('a')
s.startswith('He')
s.startswith(('x', 'He'))
s.endswith('ld')
s.startswith('W', 6)
s.find('o')
s.find('o', 5)
s.rfind('o')
s.find('zz')
s.index('zz')
s.count('o')
u.find('é')
s.replace('o', '0')
s.replace('o', '0', 1)
'ab'.replace('', '-')
s|replace('l', 'L')
s|replace('l', 'L', 2)
5|replace('5', '6')
sz|upper
sz|lower
sz.title()
sz|title
sz|capitalize
sz.capitalize()
sz.swapcase()
'ǆ ŉ ﬃ'.title()
'ǆ ŉ ﬃ'.upper()
"they're bill's"|title
"they're bill's".title()
'HELLO world'|capitalize
'%s=%d %r %5s|%-5s| %.2f %%' % ('a', 3, 'q', 'r', 't', 2.345)
'%05d %+d %x %X %o %e %g %c' % (42, 5, 255, 255, 8, 12345.678, 0.0001, 'z')
'%(a)s-%(b)s' % {'a': 1, 'b': 2}
'%s' % 5
'%s' % [1]
'%s %s' % 'a'
'%s' % ('a', 'b')
'%d' % 'a'
'%s|%s'|format('a', 1)
'%(x)s'|format(x=1)
'{} {}'.format('a', 1)
'{0} {1} {0}'.format('a', 'b')
'{x} {y:>5}|{z:<4}|{w:^5}|'.format(x=1, y='r', z='l', w='c')
'{:05.1f} {:,} {:x} {:+d} {:%}'.format(3.14159, 1234567, 255, 5, 0.25)
'{{}} {!r}'.format('q')
'{} {0}'.format(1)
'{}'.format()
'a\\nb\\n\\nc'|indent
'a\\nb\\n\\nc'|indent(2, true)
'a\\nb\\n\\nc'|indent(2, blank=true)
'a\\nb\\n'|indent('--', first=true)
[1, none, x, 'a']|join(',')
[1, [2]]|join
l|string
'a-b_c'.partition('-')
'a-b-c'.rpartition('-')
'abc'.removeprefix('a')
'abc'.removesuffix('bc')
','.join(['a', 'b'])
','.join([1])
'12'.isdigit()
'a1'.isalnum()
'7'.zfill(3)
'x'.center(5, '*')
'a\\r\\nb\\u2028c'.splitlines()
'a\\nb\\n'.splitlines(true)
'abc' is lower
'ABC'|lower is upper
'\\101\\x41\\u0041'
'\\q\\
x'
'tab\\there'
"\\"\\'"
'é'.upper()
('<b>'|e) + '<'
'<b>'|safe
'a'|upper ~ 'b'|lower
""",
    "sequences": """
d|dictsort
d|dictsort(true)
d|dictsort(by='value')
d|dictsort(reverse=true)
words|sort
words|sort(case_sensitive=true)
words|sort(reverse=true)
[1, 'a']|sort
n|sort
rows|sort(attribute='n')|map(attribute='n')|list
rows|sort(attribute='role,n')|map(attribute='n')|list
words|unique|list
words|unique(case_sensitive=true)|list
rows|unique(attribute='role')|map(attribute='n')|list
rows|selectattr('n')|list|length
rows|selectattr('role', 'equalto', 'user')|map(attribute='n')|list
rows|selectattr('role', '==', 'user')|list|length
rows|rejectattr('n', 'gt', 0)|map(attribute='role')|list
rows|selectattr('t.u.0')|list|length
rows|map(attribute='t.u.0')|list
rows|map(attribute='t.u.0', default='-')|list
rows|map(attribute='nope')|list
rows|selectattr('nope', 'defined')|list
rows|selectattr('t', 'undefined')|list|length
n|map('string')|join('+')
words|map('replace', 'a', 'z')|list
n|select('odd')|list
n|reject('odd')|list
[0, 1, '']|select|list
n|select('in', [1, 2])|list
[]|first is defined
[]|first
[]|last is defined
n|first
n|last
u|first
u|last
{'a': 1}|first
{'a': 1}|list
n|min
n|max
words|max
[]|max is defined
n|sum
rows|sum(attribute='n')
[[1], [2]]|sum(start=[])
n|reverse|list
u|reverse
n|batch(2)|list
n|batch(2, 0)|list
'abc'|list
n|length
n|count
(n|map('string'))|length
{% set g = n|map('string') %}{{ g|first }}{{ g|list }}{{ g|list }}{% if g %}true{% endif %}
{% if rows|selectattr('role', 'equalto', 'nobody') %}true{% endif %}
l.index('a')
l.count(1)
n[1:]
n[::-1]
n[:-1]
n[-2:]
n[:]
(1, 2, 3)[1:]
""",
    "tests": """
's' is sequence
l is sequence
m is sequence
5 is sequence
range(3) is sequence
m.keys() is sequence
l is iterable
5 is iterable
(n|map('string')) is iterable
true is number
1.5 is number
's' is number
true is integer
1 is integer
1.0 is integer
1.0 is float
true is boolean
m is mapping
l is mapping
0 is false
false is false
1 is true
none is none
1 is odd
2 is even
1 is sameas 1
true is sameas true
's' is defined
raise_exception is callable
m.get is callable
'upper' is filter
'nope' is filter
'odd' is test
1 is eq(1)
1 is ge 1
1 is lessthan 2
""",
    "scopes": """
{% set v=1 %}{% for a in [1,2] %}{{ v }}{% set v=a+5 %}{% endfor %}
{% set v=1 %}{% for a in [1,2] %}{% set v=a+5 %}{{ v }}{% endfor %}{{ v }}
{% if true %}{% set v=1 %}{% endif %}{{ v }}
{% for a in [1] %}{% endfor %}{{ a is defined }}{{ loop is defined }}
{% set ns = namespace(v=0) %}{% for a in [1,2] %}{% set ns.v = ns.v + a %}{% endfor %}{{ ns.v }}{{ ns['v'] }}
{% set ns = namespace({'q': 1}) %}{{ ns.q }}{{ ns.nope is defined }}
{% set ns = namespace() %}{% set ns._x = 1 %}
{% set m.x = 1 %}
{% set a, b = 1, 2 %}{{ a }}{{ b }}
{% set a, b = [1] %}
{% set q %}x{{ 1 }}{% endset %}{{ q }}
{% set q | upper %}x{{ 1 }}{% endset %}{{ q }}
{% set v = 1 %}{% set q %}{% set v = 2 %}{{ v }}{% endset %}{{ q }}{{ v }}
{% macro f() %}{{ v }}{% endmacro %}{% set v = 1 %}{{ f() }}{% set v = 2 %}{{ f() }}
{% macro f() %}{{ a is defined }}{{ loop is defined }}{% endmacro %}{% for a in [1] %}{{ f() }}{% endfor %}
{% for a in [1,2] %}{% macro f() %}{{ a }}{% endmacro %}{{ f() }}{% endfor %}
{% macro f(a, b=a, c='z') %}{{ a }}{{ b }}{{ c }}{% endmacro %}{{ f(1) }}{{ f(1, c=2) }}{{ f() }}
{% macro f(a) %}{{ a is defined }}{% endmacro %}{{ f() }}
{% macro f(a) %}{% endmacro %}{{ f(1, 2) }}
{% macro f(a) %}{% endmacro %}{{ f(b=2) }}
{% macro f(a) %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ f(1, 2, b=3) }}
{% macro f() %}x{% endmacro %}{{ f() is string }}{{ f()|length }}
{% macro f(n) %}{{ n }}{% if n > 0 %}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(3) }}
{% macro f(n) %}[{{ caller(n) }}]{% endmacro %}{% call(z) f(2) %}<{{ z }}>{% endcall %}
{% macro f() %}{% endmacro %}{% call f() %}{% endcall %}
{% macro f(a, b) %}{{ a }}{{ b }}{% endmacro %}{{ f(*[1, 2]) }}{{ f(**{'a': 3, 'b': 4}) }}
{% for x in [1] %}{{ bos }}{% endfor %}{% set bos = 1 %}
{% with a = 1, b = 2 %}{{ a }}{{ b }}{% endwith %}{{ a is defined }}
{% filter upper %}abc{{ 'd' }}{% endfilter %}
{% generation %}g{% set v = 1 %}{% endgeneration %}{{ v is defined }}
{% set c = cycler('a', 'b') %}{{ c.next() }}{{ c.next() }}{{ c.current }}{{ c.next() }}
{% set c = joiner() %}{{ c() }}a{{ c() }}b
{% raw %}{{ x }}{% endraw %}
""",
    "loop": """
{% for a in [1,2,3] if a != 2 %}{{ loop.index }}/{{ loop.length }}{{ loop.last }}{{ loop.first }};{% endfor %}
{% for a in [1,2,3] %}{{ loop.previtem }}<{{ a }}>{{ loop.nextitem }};{% endfor %}
{% for a in [1] %}{{ loop.previtem is defined }}{{ loop.nextitem is defined }}{% endfor %}
{% for a in [1,2,3] %}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{% endfor %}
{% for a in [1,2,3] %}{% if a == 2 %}{% break %}{% endif %}{{ a }}{{ loop.last }}{% endfor %}
{% for a in [1,2,3] %}{% if a == 2 %}{% continue %}{% endif %}{{ a }}{% endfor %}
{% for a in [] %}x{% else %}empty{% endfor %}
{% for a in {'b': 1, 'a': 2} %}{{ a }}{% endfor %}
{% for k, v in {'b': 1, 'a': 2}.items() %}{{ k }}{{ v }}{% endfor %}
{% for k, v in {'b': 1}|items %}{{ k }}{{ v }}{{ loop.length }}{% endfor %}
{% for a, b in [[1, 2, 3]] %}{% endfor %}
{% for a, b in [[1]] %}{% endfor %}
{% for a, (b, c) in [[1, [2, 3]]] %}{{ a }}{{ b }}{{ c }}{% endfor %}
{% for a in [1,2,3] %}{{ loop.cycle('x', 'y') }}{{ loop.changed(a > 1) }}{% endfor %}
{% for a in [1,2] %}{% for b in [3] %}{{ loop.index }}{% endfor %}{{ loop.index }}{% endfor %}
{% for a in n|map('string') %}{{ a }}{{ loop.last }}{% endfor %}
{% for a in n|sort %}{{ a }}{% endfor %}
{% for a in 5 %}{% endfor %}
{% for a in [1,2,3] if a > ns %}{{ a }}{% endfor %}
{% set ns = namespace(t=0) %}{% for a in [1,2,3,4] if ns.t < 3 %}{% set ns.t = ns.t + a %}{{ a }}{% endfor %}
""",
    "mutation": """
{% set q = l.append(1) %}
{% set q = m.update({'a': 2}) %}
{% set q = l.pop() %}
{% if false %}{{ l.append(1) }}{% endif %}ok
l.copy()
""",
    "functions": """
raise_exception('no')
{% if false %}{{ raise_exception('no') }}{% endif %}ok
strftime_now('%Y-%m-%d')
strftime_now('%d %b %Y, %A %B %H:%M:%S %p %I %j %y %e %a %m %%')
dict(a=1, b='x')
dict([('a', 1)])
dict({'a': 1}, b=2)
namespace(a=1).a
""",
}

WHITESPACE = [
    "  {% if true %}  \n  x{% endif %}", "a\n   {% if true %}\nb\n   {% endif %}\nc\n", "  {{ 1 }}\n{{ 2 }}\n\n",
    "a \u00a0{#- c -#}\n b", "a\n\x0b {# c #}\nb", "{%- if true -%} a {%- endif -%} b", "a {%+ if true +%}\nb{% endif %}",
    "a\r\n  {% if true %}\r\nb\r{% endif %}\r\n", "x{% raw %}\n y{% endraw %}\nz", "x  {% raw -%} \n y {%- endraw -%} z",
    "{{ {'a': {'b': 1}}['a'] }}", "{{ '}}' }}{{ \"%}\" }}", "{# {{ x }} #}a", "a{{- ' b ' -}} c", "\n{% set a = 1 %}\n\n{{ a }}\n",
    "{% for a in [1, 2] %}\n  {{ a }}\n{% endfor %}\n", "{%- for a in [1, 2] %}\n  {{- a }}\n{%- endfor %}\n",
]


def result(template):
    """The text, or None for an error."""
    return sandbox.render(template, copy.deepcopy(CONTEXT))


def cases():
    for section, lines in SECTIONS.items():
        # A line that ends with a backslash goes on in the next one, the line break included.
        for line in lines.strip().replace("\\\n", "\\\0").split("\n"):
            line = line.replace("\0", "\n")
            yield section, line if "{%" in line or line.startswith("{{") else "{{ " + line + " }}"
    for template in WHITESPACE:
        yield "whitespace", template


if __name__ == "__main__":
    rows = [{"section": s, "template": t, "text": result(t)} for s, t in cases()]
    print(json.dumps({"now": sandbox.NOW, "context": CONTEXT, "cases": rows}, indent=0))
