package dialect

import (
	"bytes"
	"encoding/binary"
	"image"
	"image/gif"
	"image/jpeg"
	"image/png"
)

// MaxPixels is the largest image by area. A few kilobytes can unfold into gigabytes on the model's server.
const MaxPixels = 50_000_000

// pixels returns the area of an image as its header tells it; 0 if the header cannot be read.
func pixels(mediaType string, data []byte) int {
	var c image.Config
	var err error
	switch mediaType {
	case "image/png":
		c, err = png.DecodeConfig(bytes.NewReader(data))
	case "image/jpeg":
		c, err = jpeg.DecodeConfig(bytes.NewReader(data))
	case "image/gif":
		c, err = gif.DecodeConfig(bytes.NewReader(data))
	case "image/webp":
		c.Width, c.Height = webpSize(data)
	}
	if err != nil {
		return 0
	}
	return c.Width * c.Height
}

// webpSize reads the size from the first chunk of a WebP file, which the standard library does not know: lossy,
// lossless or extended (RFC 9649, section 2).
func webpSize(b []byte) (width, height int) {
	if len(b) < 30 {
		return 0, 0
	}
	switch string(b[12:16]) {
	case "VP8 ":
		return int(binary.LittleEndian.Uint16(b[26:]) & 0x3fff), int(binary.LittleEndian.Uint16(b[28:]) & 0x3fff)
	case "VP8L":
		bits := binary.LittleEndian.Uint32(b[21:])
		return int(bits&0x3fff) + 1, int(bits>>14&0x3fff) + 1
	case "VP8X":
		return int(uint24(b[24:])) + 1, int(uint24(b[27:])) + 1
	default:
		return 0, 0
	}
}

func uint24(b []byte) uint32 { return uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16 }
