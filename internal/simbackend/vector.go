package simbackend

import (
	"encoding/base64"
	"encoding/binary"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"strings"
)

// vector returns the embedding of a text: the sum of a fixed random direction for each of its words, scaled to length
// 1. So equal texts have equal vectors and texts that share words are closer than others. An empty text has the first
// axis.
func vector(seed uint64, text string, dims int) []float32 {
	sum := make([]float64, dims)
	for _, word := range strings.Fields(strings.ToLower(text)) {
		h := fnv.New64a()
		h.Write([]byte(word))
		direction := rand.New(rand.NewPCG(h.Sum64(), seed))
		for i := range sum {
			sum[i] += direction.NormFloat64()
		}
	}
	return unit(sum)
}

func unit(v []float64) []float32 {
	var square float64
	for _, x := range v {
		square += x * x
	}
	out := make([]float32, len(v))
	if square == 0 {
		out[0] = 1
		return out
	}
	for i, x := range v {
		out[i] = float32(x / math.Sqrt(square))
	}
	return out
}

// shorten keeps the first dims dimensions and scales the rest to length 1 again.
func shorten(v []float32, dims int) []float32 {
	if dims <= 0 || dims >= len(v) {
		return v
	}
	wide := make([]float64, dims)
	for i := range wide {
		wide[i] = float64(v[i])
	}
	return unit(wide)
}

// similarity is the cosine of two unit vectors moved to 0..1.
func similarity(a, b []float32) float64 {
	var dot float64
	for i := range a {
		dot += float64(a[i]) * float64(b[i])
	}
	return (dot + 1) / 2
}

// base64Floats is the compact form of a vector: little-endian float32.
func base64Floats(v []float32) string {
	raw := make([]byte, 0, 4*len(v))
	for _, x := range v {
		raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(x))
	}
	return base64.StdEncoding.EncodeToString(raw)
}
