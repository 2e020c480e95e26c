package dialect

import (
	"strconv"

	"mindrouter/internal/llm"
)

// ReadBody reads the object that a client's body is. The error is an *llm.Error and says where the body is no JSON, or
// what else it is.
func ReadBody(body []byte) (*Fields, error) {
	body = TrimBOM(body)
	if err := Validate(body); err != nil {
		return nil, llm.Invalid("", "%s", err)
	}
	if Kind(body) != '{' {
		return nil, llm.Invalid("", "the body must be a JSON object")
	}
	return ReadFields(body, ""), nil
}

// At is the path of element i of a list.
func At(list string, i int) string { return list + "[" + strconv.Itoa(i) + "]" }

// Under puts the path of the parent in front of err's Param. It returns nil for nil.
func Under(parent string, err *llm.Error) *llm.Error {
	if err == nil {
		return nil
	}
	e := *err
	switch {
	case e.Param == "":
		e.Param = parent
	case e.Param[0] == '[':
		e.Param = parent + e.Param
	default:
		e.Param = parent + "." + e.Param
	}
	return &e
}

// NoteName is the name of a client's own field in a [llm.Note]; one that could not stand in a header is kept out of it.
func NoteName(name string) string {
	if name == "" || len(name) > 64 {
		return "unknown_field"
	}
	for i := range len(name) {
		if c := name[i]; c <= ' ' || c > '~' || c == ',' || c == '=' {
			return "unknown_field"
		}
	}
	return name
}
