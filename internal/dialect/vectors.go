package dialect

import (
	"encoding/json"
	"fmt"
	"strconv"

	"mindrouter/internal/llm"
)

// Vector reads a JSON array of numbers.
func Vector(raw json.RawMessage) ([]float32, error) {
	var v []float32
	for _, item := range Elements(raw) {
		x, err := strconv.ParseFloat(string(item), 32)
		if err != nil {
			return nil, fmt.Errorf("vector element %d: %w", len(v), err)
		}
		v = append(v, float32(x))
	}
	return v, nil
}

// CheckWidth checks that vectors have the width that was asked for, if any: a server that cannot shorten them may ignore
// that in silence. The error is an *llm.Error.
func CheckWidth(vectors [][]float32, dimensions *int) error {
	for _, v := range vectors {
		if dimensions != nil && len(v) != *dimensions {
			return &llm.Error{
				Code: llm.CodeUnsupported, Param: "dimensions", Message: fmt.Sprintf("the model makes vectors of %d dimensions only", len(v)),
			}
		}
	}
	return nil
}

// CheckVectors checks that a backend sent one vector per input, all of the same width. The error is an *llm.Error.
func CheckVectors(vectors [][]float32, inputs int) error {
	if len(vectors) != inputs {
		return UpstreamFault("the model server sent unusable vectors", fmt.Errorf("%d vectors for %d inputs", len(vectors), inputs))
	}
	for i, v := range vectors {
		if len(v) == 0 || len(v) != len(vectors[0]) {
			return UpstreamFault("the model server sent unusable vectors", fmt.Errorf("vector %d has %d dimensions", i, len(v)))
		}
	}
	return nil
}
