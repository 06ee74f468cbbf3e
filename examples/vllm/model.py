"""A small Llama with random weights and a tokenizer of bytes, made on this machine from a seed.

usage: model.py FOLDER [SEED]

Its answers mean nothing. They depend on each token of the prompt, which is what a test of transfers needs: the weights
of attention are large enough that the same last words after another beginning get another answer.
"""

import json
import sys
from pathlib import Path

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

HIDDEN, INNER, LAYERS, HEADS, KV_HEADS, HEAD = 256, 512, 4, 4, 4, 64
# Bytes of keys and values of one token, in float32.
TOKEN_BYTES = 2 * LAYERS * KV_HEADS * HEAD * 4
END = 256
VOCABULARY = END + 1


def config():
    """Returns what config.json says of the model."""
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": HIDDEN,
        "intermediate_size": INNER,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS,
        "head_dim": HEAD,
        "hidden_act": "silu",
        "max_position_embeddings": 2048,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "tie_word_embeddings": False,
        "vocab_size": VOCABULARY,
        "bos_token_id": END,
        "eos_token_id": END,
        "torch_dtype": "float32",
    }


def weights(seed):
    """Returns the tensors by name: the same for the same seed."""
    generator = torch.Generator().manual_seed(seed)

    def matrix(rows, columns, gain=1.0):
        return torch.randn(rows, columns, generator=generator) * (gain / columns**0.5)

    tensors = {
        "model.embed_tokens.weight": torch.randn(VOCABULARY, HIDDEN, generator=generator),
        "model.norm.weight": torch.ones(HIDDEN),
        "lm_head.weight": matrix(VOCABULARY, HIDDEN, 2.0),
    }
    for layer in range(LAYERS):
        name = f"model.layers.{layer}."
        tensors |= {
            name + "input_layernorm.weight": torch.ones(HIDDEN),
            name + "post_attention_layernorm.weight": torch.ones(HIDDEN),
            name + "self_attn.q_proj.weight": matrix(HEADS * HEAD, HIDDEN, 1.5),
            name + "self_attn.k_proj.weight": matrix(KV_HEADS * HEAD, HIDDEN, 1.5),
            name + "self_attn.v_proj.weight": matrix(KV_HEADS * HEAD, HIDDEN, 2.0),
            name + "self_attn.o_proj.weight": matrix(HIDDEN, HEADS * HEAD, 2.0),
            name + "mlp.gate_proj.weight": matrix(INNER, HIDDEN),
            name + "mlp.up_proj.weight": matrix(INNER, HIDDEN),
            name + "mlp.down_proj.weight": matrix(HIDDEN, INNER),
        }
    # Nothing ends an answer before its time.
    tensors["lm_head.weight"][END] = 0
    return tensors


def tokenizer():
    """Returns a tokenizer whose tokens are the bytes of the text."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {letter: number for number, letter in enumerate(letters)} | {"<end>": END}
    made = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens(["<end>"])
    return made


def make(folder, seed=1):
    """Writes the model into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config(), indent=2))
    (folder / "tokenizer_config.json").write_text(
        json.dumps({"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<end>", "eos_token": "<end>"})
    )
    tokenizer().save(str(folder / "tokenizer.json"))
    save_file(weights(seed), folder / "model.safetensors", metadata={"format": "pt"})


if __name__ == "__main__":
    make(Path(sys.argv[1]), *map(int, sys.argv[2:3]))
