"""Pictures of pages as small files: 256 colours are enough for text and charts, and a third of the bytes."""

import base64
import struct
import zlib

import numpy as np
from playwright.sync_api import Page

_COLOURS = 256
_PIXELS = """async data => {
  const image = await createImageBitmap(await (await fetch(`data:image/png;base64,${data}`)).blob());
  const canvas = new OffscreenCanvas(image.width, image.height), drawn = canvas.getContext("2d");
  drawn.drawImage(image, 0, 0);
  const bytes = new Uint8Array(drawn.getImageData(0, 0, image.width, image.height).data.buffer);
  let text = "";
  for (let at = 0; at < bytes.length; at += 32768) text += String.fromCharCode(...bytes.subarray(at, at + 32768));
  return [image.width, image.height, btoa(text)];
}"""


def palette_png(page: Page, picture: bytes) -> bytes:
    """The same picture with a palette; ``page`` is any page of a browser, which knows how to read one."""
    width, height, pixels = page.evaluate(_PIXELS, base64.b64encode(picture).decode())
    places, colours = _reduced(np.frombuffer(base64.b64decode(pixels), np.uint8).reshape(height * width, 4)[:, :3])
    rows = np.hstack([np.zeros((height, 1), np.uint8), places.reshape(height, width)])  # each begins with: not filtered
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        (
            _chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)),
            _chunk(b"PLTE", colours.astype(np.uint8).tobytes()),
            _chunk(b"IDAT", zlib.compress(rows.tobytes(), 9)),
            _chunk(b"IEND", b""),
        )
    )


def _reduced(pixels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For each pixel its place among the commonest colours, the nearest where its own is rare; and those colours."""
    packed = pixels.astype(np.uint32) @ np.array([65536, 256, 1], np.uint32)
    found, inverse, counts = np.unique(packed, return_inverse=True, return_counts=True)
    every = np.stack([found >> 16, found >> 8 & 255, found & 255], axis=1).astype(np.int32)
    kept = every[np.argsort(-counts)[:_COLOURS]]
    nearest = np.concatenate(
        [
            ((part[:, None, :] - kept[None]) ** 2).sum(2).argmin(1)
            for part in np.array_split(every, len(every) // 4096 + 1)
        ]
    )
    return nearest.astype(np.uint8)[inverse.reshape(-1)], kept


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
