# SPDX-License-Identifier: Apache-2.0
"""The six codecs in numpy, to the bit. Written from docs/formats/codecs.md; kinds are numbered as CodecKind of job.proto."""
import numpy as np

FP32, FP16, BF16, INT8, MXFP4, E3M0 = range(1, 7)
BLOCK = {FP32: 1, FP16: 1, BF16: 1, INT8: 128, MXFP4: 32, E3M0: 32}
MXFP4_CODES = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6], np.float32)
E3M0_CODES = np.array([0] + [2.0 ** (c - 7) for c in range(1, 8)], np.float32)
LARGEST_FP32 = np.finfo(np.float32).max


def encoded_size(codec, elements):
    """Table: bytes of N elements."""
    if codec in (FP32, FP16, BF16):
        return {FP32: 4, FP16: 2, BF16: 2}[codec] * elements
    if codec == INT8:
        return elements + 2 * -(-elements // 128)
    rest = elements % 32
    return 17 * (elements // 32) + (1 + (rest + 1) // 2 if rest else 0)


def in_blocks(x, size):
    """Rows of one block each. The last row is filled with zeros, which the encoding omits."""
    return np.concatenate([x, np.zeros(-len(x) % size, np.float32)]).reshape(-1, size)


# ---- section Encoding

def bf16_bits(x):
    """Rounds to nearest even. Finite values beyond the largest become the largest."""
    bits = x.view(np.uint32)
    rounded = (bits + (0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)
    overflow = np.isfinite(x) & (rounded & 0x7FFF == 0x7F80)
    rounded = np.where(overflow, rounded - 1, rounded)
    return np.where(np.isnan(x), (bits >> 16 & 0x8000 | 0x7FC0), rounded).astype(np.uint16)


def from_bf16(bits):
    return (bits.astype(np.uint32) << 16).view(np.float32)


def encode_fp16(x):
    bits = np.where(np.isfinite(x), np.clip(x, -65504, 65504), x).astype(np.float16).view(np.uint16)
    return np.where(np.isnan(x), (x.view(np.uint32) >> 16 & 0x8000 | 0x7E00), bits).astype(np.uint16)


def encode_int8(x):
    rows = in_blocks(x, 128)
    finite, most = np.isfinite(rows).all(1), np.abs(rows).max(1)
    most = np.where(finite, most, np.float32(0))
    scale_bits = bf16_bits(most / np.float32(127))
    with np.errstate(over="ignore"):
        too_large = np.isinf(np.float32(127) * from_bf16(scale_bits))
    scale_bits = np.where(too_large, scale_bits - 1, scale_bits).astype(np.uint16)
    scale = from_bf16(scale_bits)[:, None]
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        quotient = np.where((scale > 0) & finite[:, None], rows / scale, np.float32(0))
    codes = np.rint(np.clip(quotient, -127, 127)).astype(np.int8)
    scale_bits = np.where(finite, scale_bits, 0x7FC0).astype("<u2")
    out = np.concatenate([scale_bits.view(np.uint8).reshape(-1, 2), codes.view(np.uint8)], axis=1)
    return out.tobytes()[:encoded_size(INT8, len(x))]


def nearest_codes(x, codes):
    """For values of at least 0: ties go to the even code, larger values to the largest code. Double holds every sum
    here exactly."""
    middle = (codes[:-1].astype(np.float64) + codes[1:]) / 2
    low = np.searchsorted(middle, x, side="left")   # a tie goes down
    high = np.searchsorted(middle, x, side="right")  # a tie goes up
    return np.where(low % 2 == 0, low, high).astype(np.uint8)


def encode_four_bits(x, codec):
    rows = in_blocks(x, 32)
    finite = np.isfinite(rows).all(1)
    rows = np.where(finite[:, None], rows, np.float32(0))
    most = np.abs(rows).max(1).astype(np.float64)
    exponent = np.frexp(most)[1] - 1  # floor(log2)
    if codec == MXFP4:
        exponent = exponent - 2
        exponent = np.clip(exponent + (most / 2.0 ** exponent > 7), -127, 125)
    else:
        exponent = np.clip(exponent + (most / 2.0 ** exponent > 1.5), -127, 127)
    exponent = np.where(most == 0, -127, exponent)
    codes = nearest_codes(np.abs(rows).astype(np.float64) / 2.0 ** exponent[:, None], MXFP4_CODES if codec == MXFP4 else E3M0_CODES)
    codes = codes | np.where(finite[:, None], np.signbit(rows), False).astype(np.uint8) << 3
    pairs = codes[:, 0::2] | codes[:, 1::2] << 4
    scale = np.where(finite, exponent + 127, 255).astype(np.uint8)
    return np.concatenate([scale[:, None], pairs], axis=1).astype(np.uint8).tobytes()[:encoded_size(codec, len(x))]


def encode(codec, x):
    x = np.ascontiguousarray(x, np.float32)
    if codec == FP32:
        return x.tobytes()
    if codec == FP16:
        return encode_fp16(x).tobytes()
    if codec == BF16:
        return bf16_bits(x).tobytes()
    return encode_int8(x) if codec == INT8 else encode_four_bits(x, codec)


# ---- section Decoding

def decode(codec, data, elements):
    if len(data) != encoded_size(codec, elements):
        raise ValueError(f"{len(data)} bytes do not hold {elements} elements in codec {codec}")
    if codec == FP32:
        return np.frombuffer(data, "<f4").copy()
    if codec == FP16:
        return np.frombuffer(data, "<f2").astype(np.float32)
    if codec == BF16:
        return from_bf16(np.frombuffer(data, "<u2"))
    head, row = (2, 130) if codec == INT8 else (1, 17)
    rows = np.frombuffer(data + bytes(-len(data) % row), np.uint8).reshape(-1, row)
    with np.errstate(over="ignore", invalid="ignore"):
        if codec == INT8:
            scale = from_bf16(np.ascontiguousarray(rows[:, :2]).view("<u2")[:, 0])
            values = rows[:, 2:].view(np.int8).astype(np.float32) * scale[:, None]
        else:
            scale = np.where(rows[:, 0] == 255, np.nan, 2.0 ** (rows[:, 0].astype(np.float64) - 127)).astype(np.float32)
            codes = np.stack([rows[:, 1:] & 15, rows[:, 1:] >> 4], axis=2).reshape(len(rows), 32)
            values = (MXFP4_CODES if codec == MXFP4 else E3M0_CODES)[codes & 7]
            values = np.where(codes & 8, -values, values) * scale[:, None]
    return values.reshape(-1)[:elements].astype(np.float32)
