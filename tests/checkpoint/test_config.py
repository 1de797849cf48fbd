"""config.json of both generations: what it says is what is meant, and whatever is odd is refused by its key."""
import json

import pytest

import fixtures as fx
from checkpoint import tool

LAYERS = ["sliding_attention", "full_attention", "sliding_attention"]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """One folder whose config the tests replace."""
    path = tmp_path_factory.mktemp("config")
    c, w = fx.f1(**tool.TINY)
    tool.folder(path, c, w)
    return path, c


def write(made, change):
    path, base = made
    c = json.loads(json.dumps(base))
    change(c)
    (path / "config.json").write_text(json.dumps(c))
    return path


def put(**kw):
    return lambda c: c.update(kw)


def drop(*keys):
    return lambda c: [c.pop(k) for k in keys]


def both(*changes):
    return lambda c: [change(c) for change in changes]


# What version 5 writes: rope_parameters, and none of the router's switches.
V5 = both(drop("rope_theta", "score_func", "route_norm", "global_attn_every_n_layers"),
          put(rope_parameters={"rope_type": "default", "rope_theta": 12345.0}, dtype="float32", attention_bias=False))

GOOD = {
    "as it is": (put(), dict(rope_theta=10000, route_norm=1, kinds="lgl", window=8, tied=0, ids=[0, 3, 1])),
    "version 5": (V5, dict(rope_theta=12345, route_norm=1, kinds="lgl")),
    "theta is an integer": (put(rope_theta=500000), dict(rope_theta=500000)),
    "no theta": (drop("rope_theta"), dict(rope_theta=10000)),
    "theta in rope_parameters": (both(drop("rope_theta"), put(rope_parameters={"rope_theta": 5e5})), dict(rope_theta=5e5)),
    "theta in both, equal": (put(rope_parameters={"rope_type": "default", "rope_theta": 1e4}), dict(rope_theta=1e4)),
    "theta for one kind": (both(drop("rope_theta"), put(rope_parameters={
        "sliding_attention": {"rope_type": "default", "rope_theta": 5e5}})), dict(rope_theta=5e5)),
    "theta for both kinds": (both(drop("rope_theta"), put(rope_parameters={
        "sliding_attention": {"rope_theta": 5e5}, "full_attention": {"rope_theta": 5e5}})), dict(rope_theta=5e5)),
    "rope_scaling is null": (put(rope_scaling=None, rope_parameters=None), dict(rope_theta=10000)),
    "rope_scaling of type default": (put(rope_scaling={"type": "default", "factor": 1.0}), dict(rope_theta=10000)),
    "layer_types by rule": (both(drop("layer_types"), put(global_attn_every_n_layers=2)), dict(kinds="lgl")),
    "layer_types null": (put(layer_types=None, global_attn_every_n_layers=3), dict(kinds="llg")),
    "the list wins over the rule": (put(global_attn_every_n_layers=1), dict(kinds="lgl")),
    "no window needed": (put(layer_types=["full_attention"] * 3, sliding_window=None), dict(kinds="ggg", window=0)),
    "no mup": (put(mup_enabled=False), dict(embed_scale=1)),
    "no normalisation": (put(route_norm=False), dict(route_norm=0)),
    "several ends": (put(eos_token_id=[7, 3], pad_token_id=None, bos_token_id=-1), dict(ids=[-1, 7, -1])),
    "16.0 is an integer": (put(head_dim=16.0), dict(head_dim=16)),
    "another name for the experts": (lambda c: c.update(num_local_experts=c.pop("num_experts")), dict(n_experts=2)),
    "the usual name wins": (put(num_local_experts=7), dict(n_experts=2)),
    "neutral values": (put(partial_rotary_factor=1.0, final_logit_softcapping=None, attn_logit_softcapping=0.0,
                           logits_scaling=1, use_sliding_window=True, mlp_bias=False, rope_interleave=None), dict(head_dim=16)),
    "no architectures": (drop("architectures"), dict(head_dim=16)),
    "one of several architectures": (put(architectures=["X", "AfmoeForCausalLM"]), dict(head_dim=16)),
    "groups of one": (put(n_group=1, topk_group=1, num_expert_groups=1, num_limited_groups=1), dict(n_experts=2)),
}


@pytest.mark.parametrize("name", GOOD)
def test_good(made, name):
    change, want = GOOD[name]
    got = tool.facts(write(made, change))
    assert {k: got[k] for k in want} == want


def test_kv_heads_default(tmp_path):
    """null: as many as query heads."""
    c, w = fx.f1(**{**tool.TINY, "num_key_value_heads": 2})
    tool.folder(tmp_path, {**c, "num_key_value_heads": None}, w)
    assert tool.facts(tmp_path)["n_kv_heads"] == 2


INTEGERS = ["vocab_size", "hidden_size", "num_hidden_layers", "num_dense_layers", "num_attention_heads",
            "num_key_value_heads", "head_dim", "intermediate_size", "moe_intermediate_size", "num_experts",
            "num_experts_per_tok", "num_shared_experts", "max_position_embeddings", "sliding_window"]
REQUIRED = [*INTEGERS, "rms_norm_eps", "route_scale", "mup_enabled", "model_type"]


@pytest.mark.parametrize("key", REQUIRED)
def test_missing(made, key):
    tool.refused(write(made, drop(key)), "config.json", key)


@pytest.mark.parametrize("key", INTEGERS)
@pytest.mark.parametrize("value", [-1, 2**31, 2**32 + 1, 2**53, -2**63, 1e308, 1.5, "1", True, [], {}])
def test_integers(made, key, value):
    tool.refused(write(made, put(**{key: value})), "config.json", key)


BAD = {
    "layers beyond any table": (put(num_hidden_layers=10**6, layer_types=None), "num_hidden_layers"),
    "zero layers": (put(num_hidden_layers=0), "num_hidden_layers"),
    "zero heads": (put(num_attention_heads=0), "num_attention_heads"),
    "zero kv heads": (put(num_key_value_heads=0), "num_key_value_heads"),
    "heads do not divide": (put(num_attention_heads=3, num_key_value_heads=2), "num_key_value_heads"),
    "odd head": (put(head_dim=15), "head_dim"),
    "more dense layers than layers": (put(num_dense_layers=4), "num_dense_layers"),
    "more active experts than experts": (put(num_experts_per_tok=3), "num_experts_per_tok"),
    "no experts": (put(num_experts=0), "num_experts"),
    "no window": (put(sliding_window=0), "sliding_window"),
    "window null": (put(sliding_window=None), "sliding_window"),
    "eps 0": (put(rms_norm_eps=0), "rms_norm_eps"),
    "eps negative": (put(rms_norm_eps=-1e-5), "rms_norm_eps"),
    "scale 0": (put(route_scale=0), "route_scale"),
    "scale text": (put(route_scale="2.5"), "route_scale"),
    "mup null": (put(mup_enabled=None), "mup_enabled"),
    "softmax": (put(score_func="softmax"), "score_func"),
    "groups": (put(n_group=2), "n_group"),
    "gelu": (put(hidden_act="gelu"), "hidden_act"),
    "biases": (put(attention_bias=True), "attention_bias"),
    "another model": (put(model_type="arcee"), "model_type"),
    "quantised by an unknown method": (put(quantization_config={"quant_method": "hqq"}), "quantization_config"),
    "partial rotation at the top": (put(partial_rotary_factor=0.5), "partial_rotary_factor"),
    "groups of experts": (put(num_expert_groups=4), "num_expert_groups"),
    "limited groups": (put(num_limited_groups=2), "num_limited_groups"),
    "best groups": (put(topk_group=2), "topk_group"),
    "soft caps": (put(attn_logit_softcapping=50.0), "attn_logit_softcapping"),
    "final soft cap": (put(final_logit_softcapping=30), "final_logit_softcapping"),
    "router soft cap": (put(router_logit_softcapping="30"), "router_logit_softcapping"),
    "scaled logits": (put(logits_scaling=8.0), "logits_scaling"),
    "multipliers": (put(residual_multiplier=0.22), "residual_multiplier"),
    "no window used": (put(use_sliding_window=False), "use_sliding_window"),
    "no norm of queries": (put(use_qk_norm=False), "use_qk_norm"),
    "biases in MLPs": (put(mlp_bias=True), "mlp_bias"),
    "interleaved rotation": (put(rope_interleave=True), "rope_interleave"),
    "a classifier": (put(architectures=["AfmoeForSequenceClassification"]), "architectures"),
    "head beyond the kernels": (put(head_dim=514), "head_dim"),
    "context beyond the rotation": (put(max_position_embeddings=1 << 24), "max_position_embeddings"),
    "theta below 1": (put(rope_theta=0.5), "rope_theta"),
    "two thetas": (put(rope_parameters={"rope_theta": 5e5}), "rope_theta"),
    "two thetas by kind": (both(drop("rope_theta"), put(rope_parameters={
        "sliding_attention": {"rope_theta": 5e5}, "full_attention": {"rope_theta": 1e6}})), "full_attention.rope_theta"),
    "theta in rope_scaling": (put(rope_scaling={"type": "default", "rope_theta": 5e5}), "rope_scaling.rope_theta"),
    "rope type": (both(drop("rope_theta"), put(rope_parameters={"rope_type": "frobnicate"})), "rope_parameters.rope_type"),
    "rope type by kind": (put(rope_parameters={"sliding_attention": {"rope_type": "yarn"}}), "sliding_attention.rope_type"),
    "old rope type": (put(rope_scaling={"type": "linear", "factor": 2.0}), "rope_scaling.type"),
    "rope factor alone": (put(rope_scaling={"factor": 2.0}), "rope_scaling.factor"),
    "partial rotation": (put(rope_parameters={"partial_rotary_factor": 0.5}), "partial_rotary_factor"),
    "theta 0": (put(rope_theta=0), "rope_theta"),
    "theta text": (put(rope_theta="10000"), "rope_theta"),
    "rope_parameters list": (put(rope_parameters=[]), "rope_parameters"),
    "layer_types short": (put(layer_types=LAYERS[:2]), "layer_types"),
    "layer_types long": (put(layer_types=LAYERS * 2), "layer_types"),
    "layer_types odd name": (put(layer_types=["sliding_attention", "chunked_attention", "full_attention"]), "layer_types[1]"),
    "layer_types numbers": (put(layer_types=[0, 1, 0]), "layer_types[0]"),
    "layer_types text": (put(layer_types="full_attention"), "layer_types"),
    "no list, no rule": (drop("layer_types", "global_attn_every_n_layers"), "layer_types"),
    "rule 0": (both(drop("layer_types"), put(global_attn_every_n_layers=0)), "global_attn_every_n_layers"),
    "end beyond the vocabulary": (put(eos_token_id=285), "eos_token_id"),
    "tie is a number": (put(tie_word_embeddings=1), "tie_word_embeddings"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad(made, name):
    change, key = BAD[name]
    tool.refused(write(made, change), "config.json", key)


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"model_type": "afmoe", "model_type": "afmoe"}', "\xff"])
def test_malformed(made, text):
    path, _ = made
    (path / "config.json").write_bytes(text.encode("latin-1"))
    tool.refused(path, "config.json")


def test_no_config(tmp_path):
    tool.refused(tmp_path, "config.json")


def test_shape_that_is_not_the_weights(made):
    """A config that is fine by itself, for other weights."""
    tool.refused(write(made, put(intermediate_size=65)), "model.layers.0.mlp", "[65, 32]", "[64, 32]")
