package e2e_test

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"math"
	"testing"
)

// float32s decodes little-endian floats in base64.
func float32s(t *testing.T, text string) []float32 {
	t.Helper()
	raw, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(raw)%4 != 0 {
		t.Fatalf("%q is no list of floats: %v", text, err)
	}
	out := make([]float32, len(raw)/4)
	for i := range out {
		out[i] = math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:]))
	}
	return out
}

func errStatus(status int) error { return fmt.Errorf("status %d", status) }

func errBody(body string) error { return fmt.Errorf("body %s", body) }
