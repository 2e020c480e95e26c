package store

import (
	"bytes"
	"fmt"

	"github.com/klauspost/compress/zstd"
)

// bodyCodec compresses the content of requests. It is safe for concurrent use.
type bodyCodec struct {
	enc *zstd.Encoder
	dec *zstd.Decoder
}

// maxBody bounds a body after decompression.
const maxBody = 256 << 20

func newBodyCodec() (*bodyCodec, error) {
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1))
	if err != nil {
		return nil, fmt.Errorf("zstd: %w", err)
	}
	dec, err := zstd.NewReader(nil, zstd.WithDecoderMaxMemory(maxBody), zstd.WithDecoderConcurrency(1))
	if err != nil {
		return nil, fmt.Errorf("zstd: %w", err)
	}
	return &bodyCodec{enc: enc, dec: dec}, nil
}

// smallBody is below what compression is worth its time, in bytes.
const smallBody = 512

// zstdMagic begins every compressed body. A body as it is begins with a brace, for it is JSON.
var zstdMagic = []byte{0x28, 0xb5, 0x2f, 0xfd}

// pack compresses what is large enough; nil stays nil.
func (c *bodyCodec) pack(body []byte) []byte {
	if len(body) < smallBody {
		return body
	}
	return c.enc.EncodeAll(body, nil)
}

// unpack is the inverse of pack.
func (c *bodyCodec) unpack(packed []byte) ([]byte, error) {
	if !bytes.HasPrefix(packed, zstdMagic) {
		return packed, nil
	}
	body, err := c.dec.DecodeAll(packed, nil)
	if err != nil {
		return nil, fmt.Errorf("read body: %w", err)
	}
	return body, nil
}
