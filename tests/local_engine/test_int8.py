"""int8: rows that know nothing of each other, sums that never saturate, outliers moved away."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tiny_model import CONFIG, fused, tiny_llama, tiny_weights, write_gguf

from weighbridge.errors import EngineError
from weighbridge.local_engine.logprobs import log_probs
from weighbridge.local_engine.models.block import attention_mask
from weighbridge.local_engine.models.convert import converted
from weighbridge.local_engine.models.linear import (
    MAX_LOOKUP,
    MAX_WEIGHT,
    FloatLinear,
    Int8Linear,
    quantized,
)
from weighbridge.local_engine.models.llama import Llama
from weighbridge.local_engine.models.load import load_generator, precision_for
from weighbridge.local_engine.models.smoothing import Smoother

EXTREMES = """
import torch
from weighbridge.local_engine.models.linear import MAX_WEIGHT
torch.set_num_threads(1)
for rows in (1, 2, 7, 64):
    inputs = torch.randint(-127, 128, (rows, 576), dtype=torch.int8)
    weights = torch.randint(-MAX_WEIGHT, MAX_WEIGHT + 1, (96, 576), dtype=torch.int8)
    inputs[0], inputs[-1] = 127, -127
    weights[0], weights[1] = MAX_WEIGHT, -MAX_WEIGHT
    sums = torch._int_mm(inputs, weights.t())
    assert torch.equal(sums, inputs.int() @ weights.t().int()), rows
print("exact")
"""


def matrices(seed: int, rows: int, columns: int) -> torch.Tensor:
    return torch.randn(rows, columns, generator=torch.Generator().manual_seed(seed))


@given(seed=st.integers(0, 1000), largest=st.sampled_from([MAX_WEIGHT, MAX_LOOKUP]))
def test_each_weight_is_rounded_to_the_nearest_step(seed, largest):
    """Half a step of its row at most; the largest of a row is exact."""
    matrix = matrices(seed, 5, 16)
    matrix[2] = 0.0
    weight, scale = quantized(matrix.clone(), largest)
    assert weight.dtype == torch.int8
    assert int(weight.abs().max()) == largest
    error = (weight * scale[:, None] - matrix).abs()
    assert bool((error <= scale[:, None] * 0.5 + 1e-6).all())
    assert not weight[2].any()


@given(seed=st.integers(0, 1000), rows=st.integers(2, 20))
def test_row_is_the_same_alone_and_among_others(seed, rows):
    """To the last bit: whatever stands beside it in a packed pass."""
    layer = Int8Linear(*quantized(matrices(seed, 24, 32)))
    inputs = matrices(seed + 1, rows, 32)
    inputs[0] *= 1000.0
    together = layer(inputs)
    for index in range(rows):
        assert torch.equal(layer(inputs[index : index + 1])[0], together[index])


@given(seed=st.integers(0, 1000))
def test_layer_is_near_the_matrix_it_was_made_of(seed):
    matrix, inputs = matrices(seed, 24, 64), matrices(seed + 1, 9, 64)
    exact, rounded = FloatLinear(matrix)(inputs), Int8Linear(*quantized(matrix.clone()))(inputs)
    assert float((exact - rounded).norm() / exact.norm()) < 0.03


def test_row_of_zeros_stays_zero():
    layer = Int8Linear(*quantized(matrices(0, 8, 16)))
    assert not layer(torch.zeros(1, 16)).any()


@pytest.mark.parametrize("isa", ["AVX2", "SSE41", "DEFAULT"])
def test_sums_are_exact_at_the_extremes_on_any_processor(isa):
    """Without VNNI the kernel adds pairs in 16 bits; weights of 127 would saturate there."""
    run = subprocess.run(
        [sys.executable, "-c", EXTREMES],
        env={**os.environ, "ONEDNN_MAX_CPU_ISA": isa},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert run.stdout.strip() == "exact", run.stderr


def test_smoothing_changes_nothing_but_the_size_of_numbers():
    """The same function of the same input, block by block and behind the head."""
    weights = fused(tiny_weights(5))
    ids = torch.arange(3, 120)
    smoother = Smoother(CONFIG, weights["model.embed_tokens.weight"][ids])
    smooth = dict(weights)
    for index in range(CONFIG.num_layers):
        prefix = f"model.layers.{index}."
        block = {name: w for name, w in weights.items() if name.startswith(prefix)}
        smooth.update(smoother.block(block, index))
    head = weights["model.embed_tokens.weight"].clone()
    smooth["model.norm.weight"], smooth["lm_head.weight"] = smoother.output(
        weights["model.norm.weight"], head
    )
    assert not torch.equal(
        smooth["model.layers.0.mlp.down_proj.weight"],
        weights["model.layers.0.mlp.down_proj.weight"],
    )
    before, after = Llama(CONFIG, weights), Llama(CONFIG, smooth)
    wanted = before.logits(before.forward(ids, before.empty_cache())[0])
    found = after.logits(after.forward(ids, after.empty_cache())[0])
    torch.testing.assert_close(found, wanted, atol=1e-3, rtol=1e-3)


def test_smoothing_takes_outliers_out_of_the_inputs():
    """A channel a hundred times the others would leave them three bits."""
    weights = fused(tiny_weights(6))
    weights["model.layers.0.input_layernorm.weight"][3] *= 100.0
    ids = torch.arange(3, 120)
    smoother = Smoother(CONFIG, weights["model.embed_tokens.weight"][ids])
    block = {name: w for name, w in weights.items() if name.startswith("model.layers.0.")}
    smooth = smoother.block(block, 0)["model.layers.0.input_layernorm.weight"].abs()
    before = weights["model.layers.0.input_layernorm.weight"].abs()
    assert smooth.max() / smooth.median() < 0.5 * before.max() / before.median()


def test_int8_model_is_near_the_float_one_and_has_a_fingerprint_of_its_own(tmp_path):
    """Each precision is a model of its own: what is calibrated for one holds for no other."""
    path = tmp_path / "tiny.gguf"
    write_gguf(path, tiny_weights())
    both = {p: load_generator(converted(path, tmp_path, p)) for p in ("float32", "int8")}
    assert both["int8"].fingerprint != both["float32"].fingerprint
    ids = torch.arange(3, 200)
    wanted, found = (
        log_probs(g.model.logits(g.model.forward(ids, g.model.empty_cache())[0]))
        for g in (both["float32"], both["int8"])
    )
    divergence = (wanted.exp() * (wanted - found)).sum(-1)
    assert float(divergence.mean()) < 0.1
    assert bool((wanted.argmax(-1) == found.argmax(-1)).float().mean() > 0.8)


def test_bfloat16_goes_the_same_way_as_on_a_gpu():
    """The path of a GPU, on the processor: weights in bfloat16, logits in float32."""
    exact = tiny_llama(2)
    rounded = Llama(CONFIG, fused(tiny_weights(2)), dtype=torch.bfloat16)
    ids = torch.arange(3, 60)
    past = rounded.empty_cache()
    for part in (ids[:20], ids[20:]):
        hidden, past = rounded.forward(part, past)
    logits = rounded.logits(hidden)
    assert logits.dtype == torch.float32
    wanted = exact.logits(exact.forward(ids, exact.empty_cache())[0])[20:]
    assert float((log_probs(logits) - log_probs(wanted)).abs().mean()) < 0.2
    parents = torch.tensor([-1, 0, 0])
    tree, _ = rounded.forward(torch.tensor([5, 6, 7]), past, parents=parents)
    alone, _ = rounded.forward(torch.tensor([5, 7]), past)
    torch.testing.assert_close(tree[2], alone[1], atol=0.1, rtol=0.1)


def test_precision_fits_the_device():
    """bfloat16 on a processor is slow and inexact, int8 is not made for a GPU."""
    assert precision_for("cpu") == "int8"
    assert precision_for("cuda") == "bfloat16"
    assert precision_for("cpu", "float32") == precision_for("cuda", "float32") == "float32"
    with pytest.raises(EngineError, match="bfloat16 is for GPUs"):
        precision_for("cpu", "bfloat16")
    with pytest.raises(EngineError, match="int8 is for CPUs"):
        precision_for("cuda", "int8")


def test_heads_laid_end_to_end_share_one_mask():
    config = replace(CONFIG, num_heads=4, num_kv_heads=2)
    sees = torch.ones(3, 3, dtype=torch.bool).tril()
    mask = attention_mask(config, sees, 2, torch.float32)
    assert mask.shape == (6, 5)
    assert torch.equal(mask[:3], mask[3:])
    assert not mask[:, :2].any()
    assert torch.equal(mask[:3, 2:] == 0, sees)
