package realmodels

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
)

// The GGUF container, version 3: a header, metadata, descriptions of the tensors, and their data, all
// little-endian. Each tensor starts at a multiple of the alignment.
// Source: docs/gguf.md in ggml-org/ggml.
const (
	ggufMagic     = "GGUF"
	ggufVersion   = uint32(3)
	ggufAlignment = 32
)

// Types of metadata values, as far as these models use them.
const (
	ggufUint32  = uint32(4)
	ggufInt32   = uint32(5)
	ggufFloat32 = uint32(6)
	ggufBool    = uint32(7)
	ggufString  = uint32(8)
	ggufArray   = uint32(9)
)

// ggmlFloat32 is the only tensor type that is written.
const ggmlFloat32 = uint32(0)

// pair is one entry of the metadata. The value is a uint32, float32, bool, string, []string or []int32.
type pair struct {
	key   string
	value any
}

// tensor is a named array. The first dimension of the shape is the one whose elements are adjacent, so
// a matrix of shape {in, out} holds one row of length in for every output.
type tensor struct {
	name  string
	shape []uint64
	data  []float32
}

// newTensor returns a tensor of zeros.
func newTensor(name string, shape ...uint64) tensor {
	size := uint64(1)
	for _, dimension := range shape {
		size *= dimension
	}
	return tensor{name: name, shape: shape, data: make([]float32, size)}
}

// writeGGUF writes a model file. It panics on metadata of another type than those of pair, and returns
// the errors of w.
func writeGGUF(w io.Writer, metadata []pair, tensors []tensor) error {
	out := &ggufWriter{w: bufio.NewWriter(w)}
	out.write([]byte(ggufMagic))
	out.write(ggufVersion)
	out.write(uint64(len(tensors)))
	out.write(uint64(len(metadata)))
	for _, p := range metadata {
		out.string(p.key)
		out.value(p.value)
	}
	offset := uint64(0)
	for _, t := range tensors {
		out.string(t.name)
		out.write(uint32(len(t.shape)))
		out.write(t.shape)
		out.write(ggmlFloat32)
		out.write(offset)
		offset += aligned(4 * uint64(len(t.data)))
	}
	out.pad()
	for _, t := range tensors {
		out.write(t.data)
		out.pad()
	}
	if out.err != nil {
		return fmt.Errorf("write GGUF: %w", out.err)
	}
	if err := out.w.Flush(); err != nil {
		return fmt.Errorf("write GGUF: %w", err)
	}
	return nil
}

func aligned(size uint64) uint64 {
	return (size + ggufAlignment - 1) / ggufAlignment * ggufAlignment
}

// ggufWriter keeps the position and the first error.
type ggufWriter struct {
	w        *bufio.Writer
	position uint64
	err      error
}

func (g *ggufWriter) write(value any) {
	if g.err != nil {
		return
	}
	g.err = binary.Write(g.w, binary.LittleEndian, value)
	g.position += uint64(binary.Size(value))
}

func (g *ggufWriter) string(s string) {
	g.write(uint64(len(s)))
	g.write([]byte(s))
}

func (g *ggufWriter) pad() {
	g.write(make([]byte, aligned(g.position)-g.position))
}

func (g *ggufWriter) value(value any) {
	switch v := value.(type) {
	case uint32:
		g.write(ggufUint32)
		g.write(v)
	case float32:
		g.write(ggufFloat32)
		g.write(v)
	case bool:
		g.write(ggufBool)
		g.write(v)
	case string:
		g.write(ggufString)
		g.string(v)
	case []string:
		g.write(ggufArray)
		g.write(ggufString)
		g.write(uint64(len(v)))
		for _, s := range v {
			g.string(s)
		}
	case []int32:
		g.write(ggufArray)
		g.write(ggufInt32)
		g.write(uint64(len(v)))
		g.write(v)
	default:
		panic(fmt.Sprintf("metadata of type %T", value))
	}
}
