package store

import (
	"bytes"
	"context"
	"fmt"

	"github.com/klauspost/compress/zstd"

	"mindrouter/internal/audit"
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

type bodyRow struct {
	RequestID string `gorm:"primaryKey"`
	Request   []byte
	Response  []byte
}

func (bodyRow) TableName() string { return "request_bodies" }

// Bodies returns the recorded content of a request and of its answer; either is nil if it was not recorded. The error is
// identity.ErrNotFound if neither was.
func (s *Store) Bodies(ctx context.Context, id audit.ID) (request, response []byte, err error) {
	row, err := one(s.read.WithContext(ctx), func(r bodyRow) (bodyRow, error) { return r, nil }, "request_id = ?", string(id))
	if err != nil {
		return nil, nil, err
	}
	if request, err = s.bodies.unpack(row.Request); err != nil {
		return nil, nil, err
	}
	response, err = s.bodies.unpack(row.Response)
	return request, response, err
}
