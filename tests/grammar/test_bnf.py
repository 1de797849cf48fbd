"""GBNF as llama-server's users write it, and EBNF as vLLM's do."""
import pytest

from grammar.tool import Tool

ARITHMETIC = r'''
root  ::= (expr "=" ws term "\n")+   # the example of llama.cpp's users
expr  ::= term ([-+*/] term)*
term  ::= ident | num | "(" ws expr ")" ws
ident ::= [a-z] [a-z0-9_]* ws
num   ::= [0-9]+ ws
ws    ::= [ \t\n]*
'''
JSON = r'''
root   ::= object
value  ::= object | array | string | number | ("true" | "false" | "null") ws
object ::= "{" ws ( string ":" ws value ("," ws string ":" ws value)* )? "}" ws
array  ::= "[" ws ( value ("," ws value)* )? "]" ws
string ::= "\"" ( [^"\\\x7F\x00-\x1F] | "\\" (["\\bfnrt] | "u" [0-9a-fA-F]{4}) )* "\"" ws
number ::= ("-"? ([0-9] | [1-9] [0-9]{0,15})) ("." [0-9]+)? ([eE] [-+]? [0-9] [1-9]{0,15})? ws
ws ::= | " " | "\n" [ \t]{0,20}
'''
SQL = '''
root ::= select_statement
select_statement ::= "SELECT " column " from " table " where " condition
column ::= 'col_1 ' | "col_2 "
table ::= "table_1 " | "table_2 "
condition ::= column "= " number
number ::= "1 " | "2 "
'''


@pytest.fixture(scope="module")
def tool():
    t = Tool()
    yield t
    t.close()


@pytest.mark.parametrize("text, yes, no", [
    (ARITHMETIC, ["a=b\n", "(1+x_1 )*2 = 3\nq=1\n"], ["a=\n", "a+=b\n", ""]),
    (JSON, ['{"a": [1, 2.5e1, {"b":null}]}', "{ }"], ["[]", '{"a": 01}', '{"a":1,}', "{"]),
    ('root ::= "a" | root2\nroot2 ::= "b" root', ["a", "bba"], ["b", "ab"]),
    ('root ::= ("a" | "b"){2,3} "c"{2}', ["abcc", "abacc"], ["acc", "abc", "ababcc"]),
    ('root ::= [a-c\\]\\-]+ .', ["a]-b", "c]é"], ["-", "x"]),
    ('root ::= "\\u00e9\\U0001F600\\x41"', ["é😀A"], ["é"]),
    ('root ::= opt "x" opt\nopt ::= "a"?', ["x", "axa", "ax"], ["aax"]),
    ('root ::= (a | b)*\na ::= "("  root ")"\nb ::= "[" root "]"', ["", "([])[]", "(" * 60 + ")" * 60], ["(]", ")"]),
    ('root ::= p\np ::= "a" p "a" | "b" p "b" | ""', ["", "abba", "aabbaa"], ["ab", "aba"]),
    ('root ::= s\ns ::= "a" s s | "b"', ["b", "abb", "aabbabb"], ["ab", "abbb"]),
    ('root ::= e{2,3}\ne ::= "a"?', ["", "a", "aaa"], ["aaaa"]),
    ('root ::= "x" (y ",")* y # end\n\ny ::=\n  "1" |\n  "2"\n', ["x1", "x1,2"], ["x", "x1,"]),
])
def test_gbnf(tool, text, yes, no):
    for kind in ("gbnf", "ebnf"):
        assert tool.accepts(yes + no, kind=kind, text=text) == [True] * len(yes) + [False] * len(no), kind


def test_ebnf_has_single_quotes(tool):
    assert tool.accepts(["SELECT col_1  from table_2  where col_2 = 1 ", "SELECT col_1"], kind="ebnf", text=SQL) == [True, False]
    assert "column" in tool.ask(kind="gbnf", text=SQL)["error"]


@pytest.mark.parametrize("text, words", [
    ('root ::= root "a" | "b"', 'left recursion in rule "root"'),
    ('root ::= a\na ::= b? a "x" | "y"\nb ::= "q"', 'left recursion in rule "a"'),
    ('root ::= x\nx ::= y "1"\ny ::= x "2" | "3"', "left recursion"),
    ('root ::= missing', '"missing" is not defined'),
    ('other ::= "a"', '"root"'),
    ('root ::= "a', "without end at line 1"),
    ('root ::= [a', "]"),
    ('root ::= ("a"', ")"),
    ('root ::= "a")', "("),
    ('root ::= "a"\nroot ::= "b"', "twice"),
    ('root ::= "a"{3,2}', "order"),
    ('root ::= "a" (= "b")', "look-ahead"),
    ('root ::= <[5]>', "by number"), ('root ::= !<think>', "but one"), ('root ::= <think', "without >"),
    ('root = "a"', "::="),
    ("", "root"),
    ("root ::= " + "(" * 100000, "deeply"),
    ("root ::= a\na ::= \"(\" a \")\"", "satisfy"),
    ("root ::= r0\n" + "".join(f"r{i} ::= \"a\" r{i + 1} \"b\"\n" for i in range(1000)) + 'r1000 ::= "x"', "satisfy"),
])
def test_refused(tool, text, words):
    answer = tool.ask(kind="gbnf", text=text)
    assert answer.get("code") in (-1, -14) and words in answer["error"], answer


def test_walks_are_texts(tool):
    for text in (ARITHMETIC, JSON, SQL.replace("'", '"')):
        answer = tool.ask(kind="gbnf", text=text, walks=20, steps=300, seed=5)
        ended = [w for w in answer["walks"] if isinstance(w, str)]
        assert len(ended) >= 3
        assert all(w == 1 for w in answer["walks"] if not isinstance(w, str))
        assert all(tool.accepts(ended, kind="gbnf", text=text))


@pytest.mark.parametrize("text", [
    'root ::= (a{1,99}){1,99}\na ::= (b{1,99}){1,99}\nb ::= "x"{1,99}', "root ::= " + '"a" | ' * 20000 + '"b"',
    "root ::= " + "a " * 20000 + '\na ::= "x"', 'root ::= "a" root root root | ""', "root ::= (" * 1 + '"a"*' * 5000 + ")*",
])
def test_hostile_is_exact_or_refused(tool, text):
    answer = tool.ask(kind="gbnf", text=text, walks=1, steps=30)
    assert "error" in answer or all(isinstance(w, str) or w in (1, -14) for w in answer["walks"]), answer
