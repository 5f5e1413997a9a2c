"""Writes a tiny llama model with random weights: it means nothing, but any llama.cpp runs it.

    python make_tiny_gguf.py OUT.gguf [LAYERS]

With the default of two layers it has half a megabyte; each further one makes it slower.
"""

import sys

import gguf
import numpy as np

WORDS = (
    "the quick brown fox jumps over lazy dog premium regular request queue stream token policy "
    "class weight share fair slot wait lease body header"
).split()

EMBEDDING = 64
HEADS = 4
FEED_FORWARD = 160
CONTEXT = 4096

# How the format names the kinds of token.
NORMAL, UNKNOWN, CONTROL, BYTE = 1, 2, 3, 6

CHAT_TEMPLATE = "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}assistant:"


def vocabulary():
    """The tokens, and how many of them are no text."""
    special = ["<unk>", "<s>", "</s>"]
    single_bytes = [f"<0x{value:02X}>" for value in range(256)]
    text = [f"\u2581{word}" for word in WORDS]
    text += ["\u2581", *"abcdefghijklmnopqrstuvwxyz0123456789.,:"]
    return special + single_bytes + text, len(special) + len(single_bytes)


def write(path, layers):
    random = np.random.default_rng(1)
    tokens, no_text = vocabulary()
    writer = gguf.GGUFWriter(path, "llama")

    writer.add_name("tiny-random")
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(EMBEDDING)
    writer.add_block_count(layers)
    writer.add_feed_forward_length(FEED_FORWARD)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(EMBEDDING // HEADS)
    writer.add_vocab_size(len(tokens))
    writer.add_file_type(0)

    texts = len(tokens) - no_text
    writer.add_tokenizer_model("llama")
    writer.add_token_list([token.encode() for token in tokens])
    writer.add_token_scores([0.0] * no_text + [-float(index) for index in range(texts)])
    writer.add_token_types([UNKNOWN, CONTROL, CONTROL] + [BYTE] * 256 + [NORMAL] * texts)
    writer.add_unk_token_id(0)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_add_bos_token(True)
    writer.add_chat_template(CHAT_TEMPLATE)

    def tensor(name, rows, columns, scale=0.1):
        values = random.standard_normal((rows, columns)) * scale
        writer.add_tensor(name, values.astype(np.float32))

    ones = np.ones(EMBEDDING, np.float32)
    tensor("token_embd.weight", len(tokens), EMBEDDING, scale=1.0)
    writer.add_tensor("output_norm.weight", ones)
    # Such that hardly anything but text comes out.
    output = (random.standard_normal((len(tokens), EMBEDDING)) * 0.3).astype(np.float32)
    output[:no_text] = 0.0
    writer.add_tensor("output.weight", output)
    for layer in range(layers):
        block = f"blk.{layer}."
        writer.add_tensor(f"{block}attn_norm.weight", ones)
        writer.add_tensor(f"{block}ffn_norm.weight", ones)
        for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
            tensor(f"{block}{name}.weight", EMBEDDING, EMBEDDING)
        tensor(f"{block}ffn_gate.weight", FEED_FORWARD, EMBEDDING)
        tensor(f"{block}ffn_up.weight", FEED_FORWARD, EMBEDDING)
        tensor(f"{block}ffn_down.weight", EMBEDDING, FEED_FORWARD)

    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    write(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 2)
