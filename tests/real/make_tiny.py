#!/usr/bin/env python3
"""Make a tiny random-weight Qwen3 model + own BPE tokenizer + ChatML template (tools, <think>). No network."""

import os, sys, json, glob, sysconfig, time

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TRANSFORMERS_OFFLINE"] = "1"
out = sys.argv[1] if len(sys.argv) > 1 else "tiny"
t0 = time.time()
from tokenizers import Tokenizer, models, trainers, pre_tokenizers, decoders

files = sorted(glob.glob(os.path.join(sysconfig.get_path("stdlib"), "*.py")))[:60]
tok = Tokenizer(models.BPE())
tok.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
tok.decoder = decoders.ByteLevel()
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
ADDED = ["<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", "<think>", "</think>"]
tok.train(
    files,
    trainers.BpeTrainer(
        vocab_size=2048 - len(ADDED),
        special_tokens=SPECIAL,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    ),
)
from tokenizers import AddedToken

tok.add_special_tokens(SPECIAL)
tok.add_tokens([AddedToken(t, special=False, normalized=False) for t in ADDED])
TEMPLATE = r"""{%- if tools %}
{{- '<|im_start|>system\n' }}
{%- if messages[0].role == 'system' %}{{- messages[0].content + '\n\n' }}{%- endif %}
{{- "# Tools\n\nYou may call one or more functions.\n\n<tools>" }}
{%- for tool in tools %}{{- "\n" }}{{- tool | tojson }}{%- endfor %}
{{- "\n</tools>\n\nReturn a json object in <tool_call></tool_call> tags.<|im_end|>\n" }}
{%- else %}
{%- if messages[0].role == 'system' %}{{- '<|im_start|>system\n' + messages[0].content + '<|im_end|>\n' }}{%- endif %}
{%- endif %}
{%- for message in messages %}
{%- if message.role == 'user' or (message.role == 'system' and not loop.first) %}
{{- '<|im_start|>' + message.role + '\n' + (message.content if message.content is string else '') + '<|im_end|>\n' }}
{%- elif message.role == 'assistant' %}
{{- '<|im_start|>assistant\n' }}
{%- set rc = message.reasoning or message.reasoning_content or '' %}
{%- if rc is string and rc %}{{- '<think>\n' + rc + '\n</think>\n\n' }}{%- endif %}
{{- message.content if message.content is string else '' }}
{%- if message.tool_calls %}{%- for tc in message.tool_calls %}
{%- set f = tc.function if tc.function else tc %}
{{- '\n<tool_call>\n{"name": "' + f.name + '", "arguments": ' }}{{- f.arguments if f.arguments is string else f.arguments | tojson }}{{- '}\n</tool_call>' }}
{%- endfor %}{%- endif %}
{{- '<|im_end|>\n' }}
{%- elif message.role == 'tool' %}
{{- '<|im_start|>user\n<tool_response>\n' + (message.content if message.content is string else message.content | tojson) + '\n</tool_response><|im_end|>\n' }}
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
{{- '<|im_start|>assistant\n' }}
{%- if enable_thinking is defined and enable_thinking is false %}{{- '<think>\n\n</think>\n\n' }}{%- endif %}
{%- endif %}"""
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM, GenerationConfig
import torch

ft = PreTrainedTokenizerFast(
    tokenizer_object=tok,
    eos_token="<|im_end|>",
    pad_token="<|endoftext|>",
    clean_up_tokenization_spaces=False,
    model_max_length=32768,
)
ft.chat_template = TEMPLATE
ft.save_pretrained(out)
torch.manual_seed(0)
V = len(ft)
cfg = Qwen3Config(
    vocab_size=V,
    hidden_size=64,
    intermediate_size=128,
    num_hidden_layers=2,
    num_attention_heads=2,
    num_key_value_heads=1,
    head_dim=32,
    max_position_embeddings=32768,
    tie_word_embeddings=False,
    bos_token_id=None,
    eos_token_id=ft.eos_token_id,
    pad_token_id=ft.pad_token_id,
)
m = Qwen3ForCausalLM(cfg).to(torch.bfloat16)
# The logit of the end is 0, and the largest of 2048 random ones is above it: at temperature 0 an answer never ends by itself.
m.lm_head.weight.data[ft.eos_token_id] = 0
m.generation_config = GenerationConfig(eos_token_id=ft.eos_token_id, pad_token_id=ft.pad_token_id)
m.save_pretrained(out)
print("vocab", V, "params", sum(p.numel() for p in m.parameters()), "secs", round(time.time() - t0, 1))
print(sorted((f, os.path.getsize(os.path.join(out, f))) for f in os.listdir(out)))
