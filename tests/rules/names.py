"""Names: what headers declare and objects export, tags, files that comments name."""
import re
from collections import defaultdict

from rules.tree import rule

EXPORTS = {"config": r"tr_", "engine": r"tr_", "server": r"srv_|main$"}
# Headers of functions that live elsewhere: header -> (files that may define them, why).
FACES = {
    "engine/engine.h": (r"engine/run/\w+\.c", "the engine's public face"),
    "engine/view.h": (r"engine/run/view\.c", "the engine's public face, too"),
    "engine/job.h": (r"engine/run/request\.c", "a job is the engine's request as others see it"),
    "engine/checkpoint/quant_rows.h": (r"engine/checkpoint/quant_\w+\.c", "rows of a quantised matrix, read or coded"),
    "engine/grammar/compile.h": (r"engine/grammar/\w+\.c", "what compiling is made of, a language a file"),
    "engine/grammar/expr.h": (r"engine/grammar/\w+\.c", "expressions and the two languages that are read into them"),
    "engine/grammar/grammar.h": (r"engine/grammar/\w+\.c", "the room's public face"),
    "engine/grammar/nodes.h": (r"engine/grammar/\w+\.c", "nodes, and what is found out about them"),
    "engine/kernels/kernels.h": (r"engine/kernels/\w+\.c", "the room's public face: the table, and what dispatches"),
    "engine/kernels/kv_q8.h": (r"engine/kernels/\w+\.c", "one format, its bodies beside the kernels that read it"),
    "engine/kernels/levels.h": (r"engine/kernels/\w+\.c", "what each instruction set has, its bodies a file each"),
    "engine/kernels/quants.h": (r"engine/kernels/\w+\.c", "formats of files, read block by block in several files"),
    "engine/run/run.h": (r"engine/run/\w+\.c", "the engine's state, and what its loop is made of"),
    "engine/sample/sampler.h": (r"engine/sample/\w+\.c", "the room's public face"),
    "engine/schedule/schedule.h": (r"engine/schedule/\w+\.c", "the room's public face"),
    "engine/text/template/ast.h": (r"engine/text/template/\w+\.c", "the tree, and the parts of the parser that makes it"),
    "engine/text/template/call.h": (r"engine/text/template/\w+\.c", "what an expression can call, a kind a file"),
    "engine/text/template/render.h": (r"engine/text/template/\w+\.c", "a render, and the parts that run it"),
    "engine/text/template/text.h": (r"engine/text/template/\w+\.c", "values as text, a form a file"),
    "engine/text/template/value.h": (r"engine/text/template/\w+\.c", "values, and what can be asked of them"),
    "server/commands/commands.h": (r"server/commands/\w+\.c", "one function a command"),
}
# Exported though no other file of the product uses it: name -> why.
FOR_TESTS = {
    "tr_detok_bytes": "bytes that no vocabulary has",
    "tr_forward_set_probe": "what a layer computes, beside the reference's",
    "tr_grammar_forced_bytes": "an automaton beside a judge, byte by byte",
    "tr_grammar_may_end": "an automaton beside a judge, byte by byte",
    "tr_grammar_rollback": "a state that was taken back beside one that never went on",
    "tr_grammar_state_copy": "the same from a copy",
    "tr_grammar_state_reset": "the same from the beginning",
    "tr_grammar_vocab_words": "how long a mask is",
    "tr__promoter_ended": "a thread's end, to wait for",
    "tr__safetensors_add": "the parser alone, fuzzed",
    "tr_tokenizer_from_json": "the parser alone, fuzzed",
    "srv_call_done": "a call without a server, fuzzed",
    "tr__model_config_parse": "the parser alone, fuzzed",
    "tr_pace_take": "one step's choice of threads",
    "tr_pace_way": "the same, before it",
}
# Tags that several files have, and why.
SHARED_TAGS = {
    "values": "of one instruction set's kernels, which a macro of engine/kernels/levels.h names",
    "scales": "of one instruction set's kernels, each with its own registers",
}
# Headers of libraries and of the system, which comments may name.
FOREIGN = {"uv.h", "microhttpd.h", "jansson.h", "pcre2.h", "utf8proc.h", "xxhash.h", "cblas.h", "stdio.h", "math.h"}


@rule
def headers(tree):
    """Every header compiles alone and has a guard."""
    for h, (error, _) in tree.declared.items():
        if error:
            yield f"{h}:1: does not compile alone:\n{error}"
        if not re.search(r"^#ifndef (\w+)\n#define \1$", tree.text(h), re.M):
            yield f"{h}:1: no include guard"


@rule
def header_names(tree):
    """X.h declares what X.c and its parts X_*.c define; X_internal.h what its folder's files define for one another."""
    for h, (_, names) in tree.declared.items():
        if re.fullmatch(r"internal\.h|private\.h|.*_(private|priv|int)\.h", h.name):
            yield f"{h}:1: a private header is called NAME_internal.h"
        if str(h) in FACES:
            home = FACES[str(h)][0]
        elif h.name.endswith("_internal.h"):
            home = rf"{h.parent}/\w+\.c"
        else:
            home = rf"{h.with_suffix('')}(_\w+)?\.c"
        where = [f for f in tree.product if f.suffix == ".c" and re.fullmatch(home, str(f))]
        if all(f in tree.objects for f in where):
            strangers = set(names) - {n for f in where for n in tree.objects[f][0]}
            if strangers:
                yield f"{h}:1: declares {', '.join(sorted(strangers))}: not in {home}"


@rule
def own_header_first(tree):
    for f in tree.product:
        if f.suffix == ".c" and tree.has(f.with_suffix(".h")):
            m = re.search(r'^#\s*include\s+[<"](.*)[>"]', tree.text(f), re.M)
            if not m or m[1] not in (str(f.with_suffix(".h")), str(f.with_name(f"{f.stem}_internal.h"))):
                yield f"{f}:1: its own header must be included first"


@rule
def symbols(tree):
    """Only the prefixes of its folder leave an object file."""
    for f, (exported, _) in tree.objects.items():
        if f in tree.product:
            for name in sorted(exported):
                if not re.match(EXPORTS[f.parts[0]], name):
                    yield f"{f}:1: exports {name}"


@rule
def unused(tree):
    """What nothing outside its file needs is static. What tests alone need stands in FOR_TESTS."""
    users = defaultdict(set)
    for f, (_, needed) in tree.objects.items():
        for name in needed:
            users[name].add("product" if f in tree.product else "tests")
    for f, (exported, _) in tree.objects.items():
        if f not in tree.product:
            continue
        for name in sorted(exported - {"main"}):
            if any(re.fullmatch(n, name) for n in FOR_TESTS):
                continue
            if not users[name]:
                yield f"{f}:1: {name} is exported and used by no other file"
            elif "product" not in users[name]:
                yield f"{f}:1: {name} is exported for tests alone"


@rule
def tags(tree):
    seen = {}
    for f in tree.product:
        for m in re.finditer(r"^[ \t]*(?:(?:static|const)\s+)*(struct|union|enum)\s+(\w+)\s*(?:/\*.*?\*/\s*)?\{", tree.text(f), re.M):
            here = f"{f}:{tree.text(f).count(chr(10), 0, m.start()) + 1}"
            if m[2] in seen and m[2] not in SHARED_TAGS:
                yield f"{here}: {m[1]} {m[2]} is defined in {seen[m[2]]} as well"
            seen.setdefault(m[2], here)


@rule
def named_files(tree):
    """A comment names only files that are there."""
    for f, n, text in tree.comments(tree.product):
        for name in re.findall(r"(?<![\w/.*<-])((?:[a-z][\w-]*/)*[a-z]\w*\.[ch])(?![\w/])", text):
            if name in FOREIGN or name.startswith(("linux/", "sys/")):
                continue
            near = any(tree.has(p / name) for p in (*f.parents,)) or "/" not in name and name in tree.basenames
            if not near and not any(str(g).endswith("/" + name) for g in tree.files):
                yield f"{f}:{n}: names {name}, which does not exist"
