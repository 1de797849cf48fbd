"""Breaks the model on purpose, one part at a time, and shows that the golden test notices.

Each ablation is a textual change to a scratch copy of the sources; the golden test is rebuilt from it and must fail. An
ablation whose text is no longer found exactly once fails too, so that this list can't rot in silence.
"""

import os
import shutil
import subprocess
from contextlib import contextmanager
from pathlib import Path

import pytest

import harness
import questions

ROOT = Path(__file__).resolve().parents[2]
TREE = ROOT / "build" / "ablation"

# Turns one row of head_dim floats in place, as only local layers do.
ROTATE = """{{
    float turned[TR_MAX_HEAD_DIM];
    const float *turn = {table};
    int half = c->head_dim / 2;
    for (int d = 0; d < half; d++) {{
        turned[d] = {row}[d] * turn[d] - {row}[half + d] * turn[half + d];
        turned[half + d] = {row}[half + d] * turn[d] + {row}[d] * turn[half + d];
    }}
    memcpy({row}, turned, (size_t)c->head_dim * sizeof(float));
}}
"""

# name: [(file, text, replacement)]
ABLATIONS = {
    "nothing": [],
    "no gate": [("engine/forward/attention.c", "f->kn->gate(o, f->z + row * f->sq + offset, (int)width);", "")],
    "gate from the raw residual": [
        (
            "engine/forward/attention.c",
            "project(w, &l->gate, &f->h, f->z, f->sq);",
            "struct tr_rows raw = f->h; raw.f32 = f->x; project(w, &l->gate, &raw, f->z, f->sq);",
        )
    ],
    "RoPE on global layers": [
        (
            "engine/forward/attention.c",
            """        else
            tr_global_write(&f->global, tile->span->global, index, head, tile->pos0 + i, key, v);
""",
            "else {"
            + ROTATE.format(row="key", table="f->rope_table + row * c->head_dim")
            + "tr_global_write(&f->global, tile->span->global, index, head, tile->pos0 + i, key, v); }",
        ),
        (
            "engine/forward/attention.c",
            """    else
        tr_global_attend(f->kn, &f->global, tile->span->global, &query, w->attend);
""",
            "else { for (int j = 0; j < tile->n * group; j++)"
            + ROTATE.format(
                row="(w->q + (size_t)j * c->head_dim)",
                table="f->rope_table + ((size_t)tile->row0 + j / group) * c->head_dim",
            )
            + "tr_global_attend(f->kn, &f->global, tile->span->global, &query, w->attend); }",
        ),
    ],
    "window W - 1": [("engine/forward/attention.c", ".window = c->window,", ".window = c->window - 1,")],
    "window W + 1": [("engine/forward/attention.c", ".window = c->window,", ".window = c->window + 1,")],
    "bias in the weights": [
        ("engine/forward/mlp.c", "weight[rank] = score[chosen[rank]];", "weight[rank] = score[chosen[rank]] + l->expert_bias[chosen[rank]];")
    ],
    "no route_scale": [("engine/forward/mlp.c", "weight[rank] *= c->route_scale;", "")],
    "no shared expert": [("engine/forward/mlp.c", "if (!l->mlp.gate.n) /* no shared expert */", "if (1)")],
    "swapped norms": [
        (
            "engine/forward/forward.c",
            "close_branch(w, l->post_attn_norm, l->pre_mlp_norm, mlp_forms(l));",
            "close_branch(w, l->pre_mlp_norm, l->post_attn_norm, mlp_forms(l));",
        )
    ],
    "no embedding scale": [("engine/forward/forward.c", "x[i] *= f->config->embed_scale;", "(void)i;")],
    "k not normed": [
        (
            "engine/forward/attention.c",
            "f->kn->rmsnorm(k, l->k_norm, c->head_dim, c->norm_eps, key);",
            "memcpy(key, k, (size_t)c->head_dim * sizeof *key);",
        )
    ],
}


@pytest.fixture(scope="module")
def tree():
    """A scratch copy of the sources, built once; ablations rebuild only what they change."""
    shutil.rmtree(TREE, ignore_errors=True)
    TREE.mkdir(parents=True)
    for name in ("config", "engine", "server"):
        shutil.copytree(ROOT / name, TREE / name, ignore=shutil.ignore_patterns("demo"))
    (TREE / "tests").mkdir()
    shutil.copytree(ROOT / "tests" / "golden", TREE / "tests" / "golden", ignore=shutil.ignore_patterns("gguf", "*.py"))
    shutil.copy(ROOT / "Makefile", TREE / "Makefile")
    yield TREE
    shutil.rmtree(TREE, ignore_errors=True)


def make(tree, target):
    env = {k: v for k, v in os.environ.items() if not k.startswith("MAKE") and k != "BUILD"}
    build = subprocess.run(
        ["make", "-j2", "WERROR=", "BUILD=build", target], cwd=tree, env=env, capture_output=True, text=True, check=False
    )
    assert build.returncode == 0, build.stdout[-2000:] + build.stderr[-2000:]


@contextmanager
def broken(tree, name):
    """The scratch copy with one ablation applied."""
    saved = {}
    try:
        for file, old, new in ABLATIONS[name]:
            path = tree / file
            text = path.read_text()
            saved.setdefault(path, text)
            assert text.count(old) == 1, f"{file}: {old!r} stands there {text.count(old)} times"
            path.write_text(text.replace(old, new))
        yield
    finally:
        for path, text in saved.items():
            path.write_text(text)


@pytest.mark.parametrize("name", ABLATIONS)
def test_golden_test_notices(tree, name):
    with broken(tree, name):
        make(tree, "build/tests/golden/forward")
        run = subprocess.run(["build/tests/golden/forward"], cwd=tree, capture_output=True, text=True, check=False)
    assert (run.returncode == 0) == (name == "nothing"), run.stdout[-2000:] + run.stderr[-2000:]


@pytest.mark.parametrize("name", ["window W - 1", "window W + 1"])
def test_self_test_notices(tree, name):
    with broken(tree, name):
        make(tree, "build/trinityd")
        run = subprocess.run([tree / "build" / "trinityd", "check", "--model", harness.DEMO, "--self-test"], cwd=tree,
                             capture_output=True, text=True, check=False)
    assert run.returncode == 1 and "self-test: logprobs differ by" in run.stderr, run.stdout + run.stderr


@pytest.mark.parametrize("ask", [questions.about_stories, questions.about_lists])
def test_answers_need_layers_without_positions(tree, ask):
    """With RoPE on the global layers most facts that lie far outside the window are lost."""
    with broken(tree, "RoPE on global layers"):
        make(tree, "build/trinityd")
        with harness.Daemon(binary=tree / "build" / "trinityd") as daemon:
            texts = [daemon.complete(prompt=p, max_tokens=24)["choices"][0]["text"] == a for p, a in ask(40)]
    assert sum(texts) < 25
