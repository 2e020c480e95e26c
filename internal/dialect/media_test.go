package dialect_test

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"image"
	"image/color"
	"image/gif"
	"image/jpeg"
	"image/png"
	"strings"
	"testing"

	"mindrouter/internal/dialect"
	"mindrouter/internal/llm"
)

// webp returns the head of a WebP file of a kind with its size where that kind has it.
func webp(kind string, width, height uint32) []byte {
	b := make([]byte, 32)
	copy(b, "RIFF\x18\x00\x00\x00WEBP"+kind)
	switch kind {
	case "VP8 ":
		binary.LittleEndian.PutUint16(b[26:], uint16(width))
		binary.LittleEndian.PutUint16(b[28:], uint16(height))
	case "VP8L":
		binary.LittleEndian.PutUint32(b[21:], (width-1)|(height-1)<<14)
	case "VP8X":
		binary.LittleEndian.PutUint32(b[24:], width-1)
		copy(b[27:], []byte{byte(height - 1), byte((height - 1) >> 8), byte((height - 1) >> 16)})
	}
	return b
}

func TestImageIsKnownByItsBytes(t *testing.T) {
	t.Parallel()
	dot := image.NewPaletted(image.Rect(0, 0, 2, 1), color.Palette{color.Black})
	var asPNG, asJPEG, asGIF bytes.Buffer
	if png.Encode(&asPNG, dot) != nil || jpeg.Encode(&asJPEG, dot, nil) != nil || gif.Encode(&asGIF, dot, nil) != nil {
		t.Fatal("encode")
	}
	for want, data := range map[string][]byte{
		"image/png": asPNG.Bytes(), "image/jpeg": asJPEG.Bytes(), "image/gif": asGIF.Bytes(), "image/webp": webp("VP8 ", 2, 1),
	} {
		m, err := dialect.Image("data:image/svg+xml;base64," + base64.StdEncoding.EncodeToString(data))
		if err != nil || m.Type != want || !bytes.Equal(m.Data, data) {
			t.Errorf("%s: %+v, %v", want, m, err)
		}
		if err == nil && dialect.DataURI(m) != "data:"+want+";base64,"+base64.StdEncoding.EncodeToString(data) {
			t.Errorf("%s: written back as %.60s", want, dialect.DataURI(m))
		}
	}
}

func TestImageThatUnfoldsIsRefused(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	if err := png.Encode(&b, image.NewPaletted(image.Rect(0, 0, 1, 1), color.Palette{color.Black})); err != nil {
		t.Fatal(err)
	}
	huge := b.Bytes()
	binary.BigEndian.PutUint32(huge[16:], 60_000)
	binary.BigEndian.PutUint32(huge[20:], 60_000)
	// The checksum of the header is wrong now; what cannot be read is left to the server, so it is mended.
	binary.BigEndian.PutUint32(huge[29:], crc(huge[12:29]))
	for name, data := range map[string][]byte{
		"png": huge, "webp lossy": webp("VP8 ", 16_000, 16_000), "webp lossless": webp("VP8L", 16_000, 16_000), "webp extended": webp("VP8X", 100_000, 1_000),
	} {
		if _, err := dialect.ImageData(data); llm.CodeOf(err) != llm.CodeInvalidRequest || !strings.Contains(err.Message, "megapixels") {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, kind := range []string{"VP8 ", "VP8L", "VP8X"} {
		if _, err := dialect.ImageData(webp(kind, 1000, 1000)); err != nil {
			t.Errorf("%s of one megapixel: %v", kind, err)
		}
	}
}

// crc is the checksum of a PNG chunk.
func crc(b []byte) uint32 {
	c := ^uint32(0)
	for _, x := range b {
		c ^= uint32(x)
		for range 8 {
			if c&1 == 1 {
				c = c>>1 ^ 0xedb88320
			} else {
				c >>= 1
			}
		}
	}
	return ^c
}

func TestMediaIsBounded(t *testing.T) {
	t.Parallel()
	for _, s := range []string{
		strings.Repeat("A", 4*(dialect.MaxMedia/3)+8), // just above
		strings.Repeat("A", 40<<20),                   // far above: refused before decoding
	} {
		if _, err := dialect.Base64(s); err == nil || !strings.Contains(err.Message, "larger") {
			t.Errorf("%d characters: %v", len(s), err)
		}
	}
	if data, err := dialect.Base64(strings.Repeat("A", 4*(dialect.MaxMedia/3))); err != nil || len(data) > dialect.MaxMedia {
		t.Errorf("at the limit: %d bytes, %v", len(data), err)
	}
	for _, s := range []string{"", "====", "A", "%%%", "AA-+"} {
		if _, err := dialect.Base64(s); err == nil {
			t.Errorf("%q is accepted", s)
		}
	}
}

func TestDocumentText(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		m    llm.Media
		want string
	}{
		"named":       {llm.Media{Type: "text/plain; charset=utf-8", Data: []byte("hi"), Name: "a.txt"}, "a.txt:\nhi"},
		"JSON":        {llm.Media{Type: "application/json", Data: []byte("{}")}, "{}"},
		"broken text": {llm.Media{Type: "text/csv", Data: []byte("a\xff")}, "a\ufffd"},
	} {
		if got, err := dialect.DocumentText(&c.m); err != nil || got != c.want {
			t.Errorf("%s: %q, %v, want %q", name, got, err, c.want)
		}
	}
	for _, m := range []llm.Media{{Type: "application/pdf", Data: []byte("%PDF-")}, {Type: "text/plain"}} {
		if _, err := dialect.DocumentText(&m); llm.CodeOf(err) != llm.CodeUnsupported {
			t.Errorf("%s: %v", m.Type, err)
		}
	}
}
