package store

import (
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

// pack compresses; nil stays nil.
func (c *bodyCodec) pack(body []byte) []byte {
	if body == nil {
		return nil
	}
	return c.enc.EncodeAll(body, nil)
}

// unpack is the inverse of pack.
func (c *bodyCodec) unpack(packed []byte) ([]byte, error) {
	if packed == nil {
		return nil, nil
	}
	body, err := c.dec.DecodeAll(packed, nil)
	if err != nil {
		return nil, fmt.Errorf("read body: %w", err)
	}
	return body, nil
}
