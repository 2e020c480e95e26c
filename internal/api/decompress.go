package api

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"strings"

	"github.com/klauspost/compress/zstd"

	"mindrouter/internal/llm"
)

// windowSize bounds the memory of one decoder, in bytes.
const windowSize = 8 << 20

// decompress undoes one layer of encoding. What comes out is at most limit bytes.
func decompress(body []byte, encoding string, limit int64) ([]byte, error) {
	var from io.Reader
	var err error
	switch strings.ToLower(strings.TrimSpace(encoding)) {
	case "", "identity":
		return body, nil
	case "gzip":
		from, err = gzip.NewReader(bytes.NewReader(body))
	case "zstd":
		var dec *zstd.Decoder
		if dec, err = zstd.NewReader(bytes.NewReader(body), zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(windowSize)); err == nil {
			defer dec.Close()
			from = dec
		}
	default:
		return nil, llm.Invalid("Content-Encoding", "Bodies encoded as %q are not accepted; send plain JSON, gzip or zstd.", truncate(encoding, 32))
	}
	var out []byte
	if err == nil {
		out, err = io.ReadAll(io.LimitReader(from, limit+1))
	}
	switch {
	case int64(len(out)) > limit, errors.Is(err, zstd.ErrWindowSizeExceeded), errors.Is(err, zstd.ErrDecoderSizeExceeded):
		return nil, tooLarge(limit)
	case err != nil:
		return nil, &llm.Error{
			Code: llm.CodeInvalidRequest, Param: "Content-Encoding", Message: "The body is not what its Content-Encoding says.", Err: err,
		}
	}
	return out, nil
}
