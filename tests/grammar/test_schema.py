"""JSON schemas: the public test suite's documents, walks checked with jsonschema, tables of cases, what is refused and how."""
import itertools
import json
import random
import re
from decimal import Decimal
from pathlib import Path

import jsonschema
import pytest

from grammar.tool import Tool

SUITE = json.loads((Path(__file__).parent / "suite/draft2020-12.json").read_text())
FORMATS = ["date", "time", "date-time", "duration", "uuid", "ipv4", "ipv6", "email", "hostname", "uri"]
CHECKER = jsonschema.FormatChecker(())
CHECKER.checkers = {f: c for f, c in jsonschema.Draft202012Validator.FORMAT_CHECKER.checkers.items() if f in FORMATS}


@CHECKER.checks("duration")
def is_duration(text):
    return not isinstance(text, str) or re.fullmatch(r"P(\d+W|(?=.)(\d+Y)?(\d+M)?(\d+D)?(T(?=.)(\d+H)?(\d+M)?(\d+S)?)?)", text) is not None


# Documents in the form that grammars allow: the order of the schema, whole numbers without a point.
def names(schema, out):
    if isinstance(schema, dict):
        for key in ("properties", "dependentRequired", "dependentSchemas", "dependencies"):
            for name in schema[key] if isinstance(schema.get(key), dict) else ():
                out.setdefault(name, len(out))
        for key, v in schema.items():
            if key not in ("enum", "const"):
                names(v, out)
    elif isinstance(schema, list):
        for v in schema:
            names(v, out)
    return out


def canonical(v, order):
    if isinstance(v, dict):
        return {k: canonical(v[k], order) for k in sorted(v, key=lambda k: order.get(k, len(order)))}
    if isinstance(v, list):
        return [canonical(e, order) for e in v]
    return int(v) if isinstance(v, float) and v == int(v) else v


def dump(v, schema=True, **form):
    return json.dumps(canonical(v, names(schema, {})), ensure_ascii=False, **form or {"separators": (",", ":")})


@pytest.fixture(scope="module")
def tool():
    t = Tool()
    yield t
    t.close()


# Valid documents refused, file by file: beyond the digits or the spellings that are ever written, quoted local parts, encoded
# names, leap seconds, another order; `format` and `vocabulary` hold formats and bounds to be mere remarks.
NARROWER = {"const": 1, "dependentSchemas": 1, "optional/dependencies-compatibility": 1, "format": 10, "vocabulary": 1, "optional/bignum": 4, "optional/float-overflow": 1, "optional/format/date-time": 4,
            "optional/format/duration": 1, "optional/format/email": 5, "optional/format/hostname": 18, "optional/format/ipv6": 4,
            "optional/format/time": 7, "optional/format/uri": 3, "unevaluatedProperties": 1}
# A format that is not enforced.
REMARKS = {"optional/format/ecmascript-regex"}


def test_suite_documents(tool):
    compiled = cases = 0
    narrower = {}
    for file, schemas in SUITE.items():
        for case in schemas:
            cases += 1
            strings = [dump(d, case["schema"]) for d, _ in case["tests"]]
            answer = tool.ask(kind="json_schema", text=json.dumps(case["schema"]), strings=strings)
            if "error" in answer:
                assert answer["code"] in (-1, -14), answer
                continue
            compiled += 1
            for (_, valid), s, accepted in zip(case["tests"], strings, answer["accepted"]):
                assert valid or not accepted or file in REMARKS, (file, case["schema"], s)
                if valid and not accepted:
                    narrower[file] = narrower.get(file, 0) + 1
    assert {f: n for f, n in narrower.items() if n > NARROWER.get(f, 0)} == {}
    assert compiled >= 363 and cases == 451


def decimal_multiple(schema):
    return isinstance(schema, dict) and (isinstance(schema.get("multipleOf"), float) or any(map(decimal_multiple, schema.values()))) or \
        isinstance(schema, list) and any(map(decimal_multiple, schema))


def once(members):
    assert len({k for k, _ in members}) == len(members), members
    return dict(members)


def check_walks(tool, schema, walks, seed, **options):
    """Walks that end are valid; returns how many did, None if the schema is refused."""
    answer = tool.ask(kind="json_schema", text=json.dumps(schema), walks=walks, seed=seed, **{"steps": 80, **options})
    if "error" in answer:
        return None
    validator = jsonschema.Draft202012Validator(schema, format_checker=CHECKER)
    ended = 0
    for text in answer["walks"]:
        if not isinstance(text, str):
            assert text == 1, (schema, text)  # 1: not at an end yet; anything else is a dead end or a bound
            continue
        ended += 1
        value = json.loads(text, object_pairs_hook=once)
        if not decimal_multiple(schema):  # jsonschema divides doubles
            errors = list(validator.iter_errors(value))
            assert not errors, (schema, text, errors[0].message)
    return ended


def test_walks_of_the_suite_are_valid(tool):
    ended = 0
    for file, schemas in SUITE.items():
        for i, case in enumerate(schemas):
            if "ecmascript" not in file and "\\p" not in json.dumps(case["schema"]):  # not in Python's expressions
                ended += check_walks(tool, case["schema"], 5, i + 1, indent=i % 3 * 2) or 0
    assert ended > 1000


# ---- schemas made by chance ----

def scalar(rng):
    return rng.choice([0, 1, -7, 2.5, "a", "é\n\"", "", None, True, False, 10 ** 12])


def make(rng, depth):
    kind = rng.randrange(12 if depth else 7)
    if kind == 0:
        s = {"type": rng.choice(["integer", "number"])}
        lo = rng.choice([-1000, -1, 0, 0.5, 3, 17])
        s |= rng.choice([{}, {"minimum": lo}, {"exclusiveMaximum": lo}, {"exclusiveMinimum": lo, "maximum": lo + rng.choice([2, 90])},
                         {"multipleOf": rng.choice([2, 3, 7])}, {"minimum": lo, "multipleOf": 3}])
    elif kind == 1:
        lo = rng.choice([0, 0, 1, 3])
        s = {"type": "string"} | rng.choice([{}, {"minLength": lo, "maxLength": lo + rng.choice([0, 2, 500])}, {"maxLength": 100000}])
    elif kind == 2:
        s = {"type": "string", "pattern": rng.choice(["^[a-z]{2,5}$", "x", "^a.*b$", "(foo|bar)+", "^\\d+-\\d+$"])}
        s |= rng.choice([{}, {"minLength": 3}, {"maxLength": 12}, {"not": {"const": "x"}}, {"maxLength": 4000}])
    elif kind == 3:
        s = {"enum": rng.sample([0, "a", "é\n\"", None, True, 2.5, [1, {"k": []}], "long word", {}], rng.randint(1, 6))}
    elif kind == 4:
        s = {"type": "string", "format": rng.choice(FORMATS)}
    elif kind == 5:
        s = rng.choice([{"type": ["null", "boolean"]}, {"const": scalar(rng)}, {"type": ["integer", "string"], "maximum": 9, "maxLength": 4}])
    elif kind == 6:
        s = rng.choice([{"not": {"enum": [1, "a", None]}}, {"not": {"type": ["object", "array", "string"]}}, {"$ref": "#/$defs/leaf"}])
    elif kind in (7, 8):
        keys = rng.sample(["a", "b", "c d", "é", "x\"y"], rng.randint(0, 4))
        s = {"type": "object", "properties": {k: make(rng, depth - 1) for k in keys}, "required": [k for k in keys if rng.random() < 0.5]}
        s |= rng.choice([{}, {"additionalProperties": False}, {"additionalProperties": make(rng, depth - 1)},
                         {"patternProperties": {"^z": make(rng, depth - 1)}, "additionalProperties": False},
                         {"additionalProperties": False, "minProperties": len(keys) // 2}, {"maxProperties": len(keys)},
                         {"propertyNames": {"maxLength": 4}}])
    elif kind == 9:
        s = {"type": "array", "items": make(rng, depth - 1)}
        s |= rng.choice([{}, {"minItems": 2}, {"minItems": 1, "maxItems": 3}, {"maxItems": 1, "uniqueItems": True},
                         {"contains": {"const": 5}, "items": {"type": "integer"}},
                         {"prefixItems": [make(rng, depth - 1), make(rng, depth - 1)], "items": False}])
    elif kind == 10:
        s = {rng.choice(["anyOf", "oneOf"]): [make(rng, depth - 1) for _ in range(rng.randint(1, 3))]}
    else:
        tag = {"properties": {"t": {"const": "p"}}, "required": ["t"]}
        s = rng.choice([{"allOf": [make(rng, depth - 1), {"type": ["object", "string", "number"]}]},
                        {"type": "object", "properties": {"t": {"enum": ["p", "q"]}, "v": {}}, "if": tag,
                         "then": {"properties": {"v": make(rng, depth - 1)}, "required": ["v"]}, "else": {"maxProperties": 1}},
                        {"type": "object", "properties": {"n": {"$ref": "#"}, "v": make(rng, depth - 1)}}])
    return s


def test_walks_of_made_schemas_are_valid(tool):
    rng = random.Random(2026)
    compiled = ended = 0
    for i in range(400):
        schema = make(rng, 3) | {"$defs": {"leaf": {"type": "string", "maxLength": 3}}}
        n = check_walks(tool, schema, 6, i + 1, indent=i % 5, compact=i % 7 == 0)
        compiled += n is not None
        ended += n or 0
    assert compiled >= 340 and ended >= 1500, (compiled, ended)


# ---- tables ----

PERSON = {"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer", "minimum": 0}, "mail": {"type": "string"}},
          "required": ["name", "age"], "additionalProperties": False}
TREE = {"type": "object", "properties": {"tree": {"type": "object", "properties": {
    "left": {"anyOf": [{"type": "string", "maxLength": 3}, {"$ref": "#/properties/tree"}]},
    "right": {"$ref": "#/properties/tree/properties/left/anyOf/0"}}, "additionalProperties": False}}, "additionalProperties": False}


@pytest.mark.parametrize("schema, yes, no", [
    (PERSON, ['{"name":"é\\u0041\\ud83d\\ude00","age":0}', '{"name":"","age":12,"mail":"x"}'],
     ['{"age":1,"name":"x"}', '{"name":"x"}', '{"name":"x","age":-1}', '{"name":"x","age":1,"z":1}', '{"name":"x","age":1,}', ' {"name":"x","age":1}']),
    (TREE, ['{"tree":{"left":"abc","right":"x"}}', '{"tree":{"left":{"left":{"right":""}}}}'], ['{"tree":{"left":"abcd"}}', '{"tree":{"right":{}}}']),
    ({"type": "integer"}, ["0", "-5", "123456789012345678"], ["-0", "007", "1.0", "1e2", "+1", ""]),
    ({"type": "number"}, ["0", "-0.5", "1e5", "2.5E-09"], ["1e400", ".5", "5.", "01", "NaN"]),
    ({"type": "integer", "minimum": 9007199254740991, "maximum": 9007199254740993}, ["9007199254740991", "9007199254740993"],
     ["9007199254740990", "9007199254740994"]),
    ({"type": "integer", "minimum": -12, "maximum": 105}, ["-12", "-1", "0", "9", "99", "100", "105"], ["-13", "106", "200", "-100", "110"]),
    ({"type": "integer", "exclusiveMinimum": -3, "exclusiveMaximum": -1}, ["-2"], ["-3", "-1", "0", "2"]),
    ({"type": "number", "minimum": 0.5, "maximum": 1.25}, ["0.5", "1", "1.25", "1.2499", "0.50"], ["0.49", "1.26", "-0.5", "1.2501"]),
    ({"type": "number", "minimum": 0}, ["1700000000000", "170000000.25", "0.000001", "0"], ["-1", "-0.5", "1e3"]),
    ({"type": "number", "multipleOf": 0.01}, ["0", "1.25", "-7.1", "100"], ["0.001", "1.255"]),
    ({"type": "integer", "multipleOf": 2.5}, ["5", "-10", "0"], ["2", "3"]),
    ({"type": "string", "maxLength": 1}, ['""', '"a"', '"😀"', '"\\ud83d\\ude00"', '"\\n"'], ['"ab"', '"\\ud83d"', '"\\ude00\\ud83d"', '"\\x"']),
    ({"type": "string", "minLength": 127, "maxLength": 129}, ['"' + "é" * 127 + '"', '"' + "a" * 129 + '"'], ['"' + "a" * 126 + '"', '"' + "a" * 130 + '"']),
    ({"type": "string", "maxLength": 0}, ['""'], ['"a"']),
    ({"type": "string"}, ['"\x7f\u2028"', '"\\/\\b\\u00e9"'], ['"\n"', '"\\u12"', '"\\ud800"', '"']),
    ({"type": "string", "pattern": "b$"}, ['"ab"', '"\\"b"'], ['"ba"', '"\\u0062"']),
    ({"type": "string", "pattern": "^a{2,}$", "maxLength": 3}, ['"aa"', '"aaa"'], ['"a"', '"aaaa"']),
    ({"type": "string", "pattern": "^(aaa)+$", "maxLength": 7}, ['"aaa"', '"aaaaaa"'], ['"aaaaaaaaa"', '"aaaa"']),
    ({"allOf": [{"pattern": "a"}, {"pattern": "b"}], "type": "string"}, ['"ab"', '"xbya"'], ['"a"', '"b"']),
    ({"const": {"a": [1, "x"], "b": None}}, ['{"a":[1,"x"],"b":null}', '{ "a": [ 1, "x" ],\n"b": null }'], ['{"b":null,"a":[1,"x"]}', "{}"]),
    ({"type": "string", "format": "hostname"}, ['"a.b-c.example"', '"' + "a" * 32 + '"', '"a.b.c.d.e.f"'], ['"-a"', '"a..b"', '"a-"', '"a_b"']),
    ({"enum": ["red", "grün", 3, None]}, ['"red"', '"grün"', "3", "null"], ['"gr"', "4", '"gr\\u00fcn"']),
    ({"enum": ["a", 1, None, [2]], "type": ["string", "array"]}, ['"a"', "[2]"], ["1", "null"]),
    ({"enum": [1, 5, 12, "x"], "minimum": 5, "not": {"const": 12}}, ["5", '"x"'], ["1", "12"]),
    ({"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}], "items": {"type": "null"}, "minItems": 2, "maxItems": 4},
     ['[1,"a"]', '[1,"a",null,null]'], ["[1]", '["a",1]', '[1,"a",null,null,null]', "[]"]),
    ({"type": "array", "contains": {"minimum": 5}, "items": {"type": "integer"}, "maxItems": 3}, ["[5]", "[1,2,7]", "[9,9,9]"], ["[]", "[1,2]", "[5,5,5,5]"]),
    ({"type": "array", "uniqueItems": True, "items": {"enum": [1, 2, 3]}, "minItems": 2}, ["[1,2]", "[3,1,2]"], ["[1]", "[1,1]", "[1,2,3,1]"]),
    ({"type": "array", "uniqueItems": True, "items": {"enum": [f"t{i}" for i in range(40)]}, "minItems": 2, "maxItems": 3}, ['["t1","t11"]', '["t39", "t3", "t9"]'],
     ['["t1"]', '["t1","t1"]', '["t1","t2","t1"]', '["t1","t2","t3","t4"]', "[]", '["t40","t1"]']),
    ({"type": "array", "uniqueItems": True, "items": {"type": "string"}}, ["[]", '["a"]', '["a","b","","ab","é"]', '["\\u001f","\\\\"]'],
     ['["a","a"]', '["","b",""]', '["a","\\u0061"]', '["\\u001f","\\u001F"]', '["a",1]', '["a",]']),
    ({"type": "array", "uniqueItems": True, "items": {"type": "string", "pattern": "^[ab]$"}}, ['["a","b"]', '["b","a"]', "[]"], ['["a","b","a"]', '["a","c"]', '["a",']),
    ({"type": "array", "uniqueItems": True, "items": {"enum": [1, 2, 3]}, "allOf": [{"items": {"minimum": 2}}]}, None, None),
    ({"type": "object", "properties": {"a": {"type": "integer"}}}, ['{"a":1,"b":[]}', '{"b":1}', '{"aa":1}', "{}"], ['{"a":"x"}', '{"b":1,"a":"x"}', '{"\\u0061":"x"}']),
    ({"type": "object", "required": ["x"], "additionalProperties": {"type": "integer"}}, ['{"x":1}', '{"x":1,"y":2}'], ['{"y":2}', '{"x":"a"}']),
    ({"type": "object", "patternProperties": {"^s": {"type": "string"}, "n$": {"maxLength": 2}}, "additionalProperties": False},
     ['{"s":"abc","sn":"ab","n":1}'], ['{"sn":"abc"}', '{"x":1}', '{"s":1}']),
    ({"type": "object", "properties": {"a": {}, "b": {}, "c": {}, "d": {}}, "required": ["d"], "minProperties": 2, "maxProperties": 3, "additionalProperties": False},
     ['{"a":1,"d":1}', '{"a":1,"c":1,"d":1}'], ['{"d":1}', '{"a":1,"b":1,"c":1,"d":1}', '{"a":1,"b":1,"c":1}']),
    ({"type": "object", "propertyNames": {"pattern": "^[a-c]+$"}, "maxProperties": 2}, ['{"ab":1}', "{}"], ['{"d":1}', '{"a":1,"b":1,"c":1}']),
    ({"oneOf": [{"type": "integer", "multipleOf": 3}, {"type": "integer", "minimum": 10}]}, None, None),
    ({"oneOf": [{"maximum": 5}, {"minimum": 3}], "type": "integer"}, ["1", "9"], ["3", "4", "5"]),
    ({"anyOf": [{"required": ["a"]}, {"required": ["b"]}], "type": "object", "properties": {"a": {}, "b": {}}, "additionalProperties": False},
     ['{"a":1}', '{"b":1}', '{"a":1,"b":1}'], ["{}", '{"c":1}']),
    ({"if": {"properties": {"k": {"const": 1}}, "required": ["k"]}, "then": {"required": ["z"]}, "else": {"maxProperties": 1}, "type": "object",
      "properties": {"k": {"type": "integer"}, "z": {"type": "null"}}, "additionalProperties": False},
     ['{"k":1,"z":null}', '{"k":2}', "{}", '{"z":null}'], ['{"k":1}', '{"k":2,"z":null}']),
    ({"dependentRequired": {"a": ["b"]}, "type": "object", "properties": {"a": {}, "b": {}}}, ['{"b":1}', '{"a":1,"b":1}', "{}"], ['{"a":1}']),
    ({"$ref": "#t", "$defs": {"x": {"$anchor": "t", "type": "array", "items": {"$ref": "#/$defs/a~1b%25"}}, "a/b%": {"type": "null"}}},
     ["[null,null]", "[]"], ["[1]", "null"]),
    ({"$defs": {"a": {"type": ["object", "null"], "properties": {"n": {"$ref": "#/$defs/a"}}, "required": ["n"], "additionalProperties": False}}, "$ref": "#/$defs/a"},
     ['{"n":' * 100 + "null" + "}" * 100], ['{"n":{}}']),
    ({"type": "object", "properties": {"p": {}}}, ['{"a":{"a":1},"b":{"a":1}}', '{"p":1,"ab":1,"a":1,"":2,"abc":2}', '{"\\u001f":1,"\\\\u001f":1,"\\\\u001F":2}'],
     ['{"a":1,"a":2}', '{"p":1,"":1,"b":1,"":2}', '{"b":[{"a":1,"x":{"a":1},"a":2}]}', '{"\\u001f":1,"\\u001F":1}', '{"a":1,"p":1}']),
    ({"type": "object", "patternProperties": {"^[ab]$": {"type": "integer"}}, "additionalProperties": False}, ['{"a":1,"b":2}', '{"b":1,"a":2}', "{}"],
     ['{"a":1,"a":2}', '{"a":1,"b":2,"a":3}']),
    ({"type": "object", "maxProperties": 3, "minProperties": 1}, ['{"a":1,"b":2,"c":3}'], ["{}", '{"a":1,"a":2}', '{"a":1,"b":2,"c":3,"d":4}']),
    ({"type": "object", "propertyNames": {"maxLength": 1}}, ['{"a":1,"b":2,"é":3,"ê":1}'], ['{"a":1,"a":2}', '{"é":1,"é":2}']),
    (True, ["[]", '{"a":[1,null,{"b":"x"}]}', "-1.5e3", '""'], ["", "nul", "[1,]", "[1", '{"a"}', "{a:1}"]),
])
def test_table(tool, schema, yes, no):
    if yes is None:
        assert tool.ask(kind="json_schema", text=json.dumps(schema))["code"] == -14
        return
    assert tool.accepts(yes + no, kind="json_schema", text=json.dumps(schema)) == [True] * len(yes) + [False] * len(no)


@pytest.mark.parametrize("schema, where", [
    ({"properties": {"a": {"not": {}}}}, "#/properties/a/not"), ({"properties": {"a": {"$ref": "http://127.0.0.1:9/x"}}}, "#/properties/a/$ref"),
    ({"properties": {"a": {"$ref": "#/$defs/A"}}, "$defs": {"A": {"$ref": "#/$defs/A"}}}, "#/$defs/A/$ref"),
    ({"properties": {"x": {"type": "strnig"}}}, "#/properties/x/type"), ({"enum": []}, "#/enum"), (5, "#"),
    ({"pattern": "(?<=a)b"}, "#/pattern"), ({"$ref": "#/nowhere"}, "#/$ref"), ({"items": [True]}, "#/items"), ({"minLength": -1}, "#/minLength"),
    ({"contains": {}, "unevaluatedItems": False}, "#/unevaluatedItems"), ({"anyOf": [{}] * 5, "unevaluatedProperties": False}, "#/anyOf"),
    ({"enum": [[1]], "unevaluatedItems": False}, "#/unevaluatedItems"), ({"not": {"unevaluatedProperties": False}}, "#/not/unevaluatedProperties"), ({"type": "integer", "multipleOf": 123456789}, "#"),
    ({"items": {"type": "array", "uniqueItems": True, "items": {"enum": list(range(9))}}}, "#/items/uniqueItems"), ({"properties": {"a/b~": {"maximum": "x"}}}, "#/properties/a~1b~0/maximum"),
    ({"oneOf": [{"items": {"type": "integer"}}, {"minItems": 3}]}, "#/oneOf/0/items"), ({"required": "a"}, "#/required"),
    ({"anyOf": [{"$ref": "#"}, {"type": "string"}]}, None), ({"required": ["a"], "properties": {"a": False}, "type": "object"}, None),
    ({"$defs": {"a": {"properties": {"n": {"$ref": "#/$defs/a"}}, "required": ["n"], "type": "object"}}, "$ref": "#/$defs/a"}, None),
])
def test_refused_with_its_place(tool, schema, where):
    answer = tool.ask(kind="json_schema", text=json.dumps(schema))
    assert answer.get("code") in (-1, -14), answer
    if where is not None:
        assert answer["param"] == where and where in answer["error"]


def test_remarks_are_ignored(tool):
    schema = {"title": "t", "description": "d", "default": 5, "examples": [1], "$comment": "c", "deprecated": True, "type": "string", "format": "topic",
              "x-order": 1, "contentEncoding": "base64", "$schema": "https://json-schema.org/draft/2020-12/schema"}
    assert tool.accepts(['"any"', "5"], kind="json_schema", text=json.dumps(schema)) == [True, False]


def test_white_space_is_bounded(tool):
    text = json.dumps(PERSON)
    forms = {"compact": '{"name":"x","age":1}', "spaces": '{ "name": "x", "age": 1 }', "lines": '{\n"name":\n"x",\n"age":\n1\n}',
             "indent": json.dumps({"name": "x", "age": 1}, indent=2), "two": '{"name":  "x","age":1}', "after": '{"name":"x","age":1} ',
             "before": '{"name" :"x","age":1}'}

    def allowed(**options):
        return {k for k, ok in zip(forms, tool.accepts(list(forms.values()), kind="json_schema", text=text, **options)) if ok}
    assert allowed() == {"compact", "spaces", "lines"}
    assert allowed(compact=True) == {"compact"}
    assert allowed(indent=4) == {"compact", "spaces", "lines", "indent"}
    assert allowed(indent=1) == {"compact", "spaces", "lines"}


def test_any_object(tool):
    deep = '{"a":' * 60 + "[]" + "}" * 60
    assert tool.accepts(["{}", '{"a":[1,{"b":null}],"c":"x"}', deep, "[]", "1", '{"a":1', '{"a":1}x'], kind="json_object") == [True] * 3 + [False] * 4
    assert not any(tool.accepts(['{"a":' * 1000 + "1" + "}" * 1000], kind="json_object"))


def test_further_names_come_once(tool):
    """Where few are left the object closes; long ones and many are told apart up to a bound."""
    ended = 0
    for i, names in enumerate([{"enum": ["a", "ab", "b", ", "]}, {"pattern": "^(a|b,? ?c*)$"}, {"maxLength": 1}, {"pattern": "^[ab]?$"}]):
        ended += check_walks(tool, {"type": "object", "propertyNames": names, "additionalProperties": {"type": "boolean"}}, 60, i + 1, steps=200)
    assert ended > 200
    ended = check_walks(tool, {"type": "object", "additionalProperties": {"enum": [True, ", ", {}]}}, 60, 1, steps=200)
    assert ended > 20
    object_of = lambda names: "{" + ",".join(f'"{n}":1' for n in names) + "}"
    many = [f"k{i}" for i in range(1025)]
    long = ["x" * 900 + c for c in "abc"]
    assert tool.accepts([object_of(n) for n in (many[:1024], many, many[:1000] + ["k7"], long, long + long[1:2], ["x" * 3000, "y" * 3000], ["x" * 3000, "x" * 3000])],
                        kind="json_object") == [True, False, False, True, False, True, False]


def same_language(tool, a, b, strings):
    return tool.accepts(strings, kind="json_schema", text=json.dumps(a)) == tool.accepts(strings, kind="json_schema", text=json.dumps(b))


@pytest.mark.parametrize("schema", [PERSON, TREE, {"type": "integer", "minimum": 3}, {"enum": ["a", 1]}])
def test_rewritten_schemas_mean_the_same(tool, schema):
    rewritten = json.loads(json.dumps(schema).replace("#/", "#/allOf/0/"))
    strings = tool.ask(kind="json_schema", text=json.dumps(schema), walks=15, seed=3)["walks"]
    strings = [s for s in strings if isinstance(s, str)] + ["1", "2", "3", "null", '"a"', "{}", '{"name":"x","age":1}', '{"tree":{"left":"abcd"}}']
    assert same_language(tool, schema, {"allOf": [rewritten]}, strings)
    rewritten = json.loads(json.dumps(schema).replace("#/", "#/anyOf/0/"))
    assert same_language(tool, schema, {"anyOf": [rewritten, rewritten]}, strings)
    assert same_language(tool, schema, schema | {"maxLength": 100000}, strings)


def chain(n, leaf):
    return {"$ref": "#/$defs/a0", "$defs": {f"a{i}": leaf(i) for i in range(n)} | {f"a{n}": {"type": "string"}}}


def nested(n, wrap):
    s = {"type": "string"}
    for _ in range(n):
        s = wrap(s)
    return s


def closed(i):
    return {"type": "object", "properties": {"t": {"const": f"k{i}"}, "v": {"type": "integer"}}, "required": ["t", "v"], "additionalProperties": False}


HOSTILE = {
    "enum of 10,000": {"enum": [f"value {i * 7919 % 100003} {i}" for i in range(10000)]},
    "5,000 properties": {"type": "object", "properties": {f"p{i}": {"type": "integer"} for i in range(5000)}},
    "long strings in long arrays": {"type": "array", "items": {"type": "string", "minLength": 2000, "maxLength": 524288}, "minItems": 1000, "maxItems": 10000},
    "alternatives multiplied": {"allOf": [{"anyOf": [{"required": [f"a{i}_{k}"]} for k in range(10)]} for i in range(10)]},
    "allOf doubled": {"allOf": [{"$ref": f"#/$defs/d{0}"}], "$defs": {
        **{f"d{i}": {"allOf": [{"$ref": f"#/$defs/d{i + 1}"}] * 2} for i in range(60)}, "d60": {"type": "string"}}},
    "not nested": nested(150, lambda s: {"not": s}), "objects nested": nested(60, lambda s: {"properties": {"a": s}, "required": ["a"], "type": "object"}),
    "references in a row": chain(3000, lambda i: {"$ref": f"#/$defs/a{i + 1}"}),
    "references through properties": chain(3000, lambda i: {"type": "object", "properties": {"n": {"$ref": f"#/$defs/a{i + 1}"}}}),
    "pattern of a megabyte": {"pattern": "a" * 1000000}, "pattern of 60 KB": {"pattern": "[a-z]b" * 10000},
    "counts nested": {"pattern": "((((a{1,100}){1,100}){1,100}){1,100}){1,100}"},
    "two patterns": {"allOf": [{"pattern": "[ab]*a[ab]{40}"}, {"pattern": "b[ab]{40}"}], "type": "string"},
    "pattern and length": {"pattern": "[ab]*a[ab]{40}", "maxLength": 500, "type": "string"},
    "oneOf of 200": {"oneOf": [{"type": "object", "properties": {"t": {"const": f"k{i}"}}, "required": ["t"]} for i in range(200)]},
    "oneOf of 1,000 closed": {"oneOf": [closed(i) for i in range(1000)]},
    "oneOf of 1,000 lists": {"oneOf": [{"enum": [f"{i} {k}" for k in range(9)]} for i in range(1000)]},
    "lists without a common value": {"allOf": [{"enum": [f"{c}{i}" for i in range(1300)]} for c in "ab"]},
    "10,000 properties": {"type": "object", "properties": {f"p{i}": {"type": "integer", "title": f"{i}"} for i in range(10000)}, "additionalProperties": False},
    "anyOf of 2,000": {"anyOf": [{"type": "object", "properties": {f"t{i}": {}}, "required": [f"t{i}"]} for i in range(2000)]},
    "names with patterns": {"patternProperties": {f"({'ab?' * i})*$": {"type": "integer"} for i in range(1, 6)}},
    "letters": {"patternProperties": {"\\p{L}x\\p{L}": True}, "additionalProperties": False, "type": "object"},
    "a megabyte of enum": {"enum": ["x" * 100 + str(i) for i in range(9000)]},
    "multiples": {"type": "number", "multipleOf": 0.0007, "minimum": -1e9, "maximum": 1e9},
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_is_exact_or_refused(tool, name):
    answer = tool.ask(kind="json_schema", text=json.dumps(HOSTILE[name]), walks=2, steps=40)
    if "error" in answer:
        assert answer["code"] in (-1, -14) and answer["error"], answer
    else:
        assert all(isinstance(w, str) or w in (1, -14) for w in answer["walks"]), answer["walks"]
        assert answer["bytes"] < 24 << 20


@pytest.mark.parametrize("name, yes, no", [
    ("oneOf of 1,000 closed", ['{"t":"k0","v":1}', '{"t":"k999","v":-7}'], ['{"t":"k1000","v":1}', '{"t":"k1","v":1,"w":1}']),
    ("oneOf of 1,000 lists", ['"0 0"', '"999 8"'], ['"999 9"', '"1"']),
    ("10,000 properties", ['{"p0":1,"p9999":2}', "{}"], ['{"p10000":1}', '{"p1":"x"}'])])
def test_long_lists_are_exact(tool, name, yes, no):
    assert tool.accepts(yes + no, kind="json_schema", text=json.dumps(HOSTILE[name])) == [True] * len(yes) + [False] * len(no)


NOTHING = {"type": "string", "minLength": 5, "maxLength": 3}
INT = {"type": "integer"}


@pytest.mark.parametrize("schema, valid", [
    ({"type": "array", "prefixItems": [INT], "items": NOTHING, "minItems": 3}, False), ({"type": "array", "prefixItems": [INT], "items": NOTHING, "minItems": 1}, True),
    ({"type": "array", "prefixItems": [INT, NOTHING], "items": INT, "minItems": 9}, False), ({"type": "array", "items": NOTHING, "minItems": 2, "contains": {}}, False),
    ({"type": "array", "items": INT, "minItems": 4, "contains": NOTHING}, False), ({"type": "array", "items": {"$ref": "#"}, "minItems": 3}, False),
    ({"type": "array", "items": {"type": "string", "pattern": "^[ab]$"}, "uniqueItems": True, "minItems": 3}, False),
    ({"type": "array", "items": {"type": "string", "pattern": "^[ab]$"}, "uniqueItems": True, "minItems": 2}, True),
    ({"type": "object", "properties": {"a": INT, "b": INT, "d": NOTHING}, "minProperties": 2, "additionalProperties": False}, None),
    ({"type": "object", "properties": {"a": INT, "d": NOTHING}, "minProperties": 2, "additionalProperties": False}, False)])
def test_bounds_that_cannot_be_met_are_no_dead_ends(tool, schema, valid):
    """Refused, or a text that has begun can end; None: it may be either."""
    ended = check_walks(tool, schema, 20, 3, steps=120)
    assert ended is None if valid is False else ended or (valid is None and ended is None)


def part(rng, depth):
    """Keywords in place, with annotations or without."""
    kind = rng.randrange(9 if depth else 4)
    one = lambda: part(rng, depth - 1)
    if kind == 0:
        return {"properties": {rng.choice("abc"): rng.choice([True, {"type": "integer"}])}}
    if kind == 1:
        return {"patternProperties": {rng.choice(["^a", "b|c"]): True}}
    if kind == 2:
        return {"required": [rng.choice("abc")]}
    if kind == 3:
        return rng.choice([{"additionalProperties": {"type": "integer"}}, {"maxProperties": 2}, {"unevaluatedProperties": True}, {}])
    if kind == 4:
        return {"allOf": [one(), one()]} | rng.choice([{}, {"unevaluatedProperties": {"type": "integer"}}])
    if kind == 5:
        return {"anyOf": [one(), one()]}
    if kind == 6:
        return {"oneOf": [one(), one()]}
    if kind == 7:
        return {"if": {"required": [rng.choice("abc")]}} | rng.choice([{}, {"then": one()}, {"else": one()}, {"then": one(), "else": one()}])
    return rng.choice([{"$ref": "#/$defs/p"}, {"not": {"not": one()}}, {"dependentSchemas": {rng.choice("abc"): one()}}])


def test_unevaluated_properties_are_exact(tool):
    rng = random.Random(7)
    documents = [dict(zip(names, values)) for n in range(4) for names in itertools.permutations("abc", n) for values in itertools.product([1, "x"], repeat=n)]
    compiled = valid = 0
    for _ in range(300):
        schema = {"$defs": {"p": part(rng, 0)}, "type": "object", "allOf": [part(rng, 2)]} | part(rng, 0)
        schema |= {"unevaluatedProperties": rng.choice([False, False, {"type": "integer"}])}
        answer = tool.ask(kind="json_schema", text=json.dumps(schema), strings=[dump(d, separators=(",", ":")) for d in documents])
        if "error" in answer:
            continue
        compiled += 1
        validator = jsonschema.Draft202012Validator(schema)
        some = {}  # in some order
        for d, accepted in zip(documents, answer["accepted"]):
            same = frozenset(d.items())
            some[same] = some.get(same, False) or accepted
        assert some == {same: validator.is_valid(dict(same)) for same in some}, schema
        valid += sum(some.values())
    assert compiled > 150 and valid > 1000, (compiled, valid)


@pytest.mark.parametrize("schema", [
    {"prefixItems": [{"type": "integer"}], "unevaluatedItems": False}, {"prefixItems": [True], "allOf": [{"prefixItems": [True, {"type": "integer"}]}], "unevaluatedItems": False},
    {"items": {"type": "integer"}, "unevaluatedItems": False}, {"unevaluatedItems": {"type": "string"}}, {"allOf": [{"unevaluatedItems": {"type": "integer"}}], "unevaluatedItems": False},
    {"allOf": [{"prefixItems": [True]}, {"unevaluatedItems": False}]}, {"$ref": "#/$defs/a", "$defs": {"a": {"prefixItems": [{"type": "string"}]}}, "unevaluatedItems": {"type": "integer"}}])
def test_unevaluated_items_are_exact(tool, schema):
    documents = [list(d) for n in range(4) for d in itertools.product([1, "x"], repeat=n)]
    answer = tool.accepts([dump(d) for d in documents], kind="json_schema", text=json.dumps(schema))
    assert answer == [jsonschema.Draft202012Validator(schema).is_valid(d) for d in documents]


def test_equal_leaves_are_told_from_like_ones(tool):
    leaves = [{"type": "integer"}, {"type": "integer", "title": "a"}, {"title": "b", "type": "integer"}, {"type": "integer", "maximum": 5},
              {"maximum": 5.0, "type": "integer"}, {"type": "integer", "minimum": 5}, {"type": "number"}, {"type": ["integer", "null"]}, {"const": 5},
              {"const": 7}, {"const": "5"}, {"enum": [5, 7]}, {"enum": [7]}, {"type": "string", "pattern": "a"}, {"type": "string", "pattern": "b"},
              {"type": "string", "format": "date"}, {"type": "string", "default": 3}, {}, {"title": "x"}, {"not": {"const": 5}}, {"not": {"const": 7}}]
    values = [5, 7, 2.5, None, "5", "a", "b", "2024-02-29"]
    schema = {"type": "object", "properties": {f"p{i}": s for i, s in enumerate(leaves)}, "additionalProperties": False}
    cases = [(i, v) for i in range(len(leaves)) for v in values]
    expected = [jsonschema.Draft202012Validator(leaves[i], format_checker=CHECKER).is_valid(v) for i, v in cases]
    assert tool.accepts([json.dumps({f"p{i}": v}, separators=(",", ":")) for i, v in cases], kind="json_schema", text=json.dumps(schema)) == expected


def test_text_that_is_no_schema(tool):
    for text in ("", "{", '{"a":' * 100000, "[" * 100000, '{"type":"string","type":"null"}', "nul", '"x"', '{"maximum":1e999}'):
        assert tool.ask(kind="json_schema", text=text)["code"] in (-1, -14)


def test_decimal_multiples_are_exact(tool):
    for m in ("0.01", "0.25", "0.3", "7", "1.5"):
        schema = {"type": "number", "multipleOf": float(m), "minimum": -50, "maximum": 50}
        answer = tool.ask(kind="json_schema", text=json.dumps(schema), walks=40, seed=9)
        texts = [w for w in answer["walks"] if isinstance(w, str)]
        assert len(texts) > 20
        assert all(Decimal(w) % Decimal(m) == 0 and -50 <= Decimal(w) <= 50 for w in texts)
