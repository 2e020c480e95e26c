package anthropic

import (
	"strconv"

	"mindrouter/internal/llm"
)

// at returns the path of element i of a list.
func at(list string, i int) string { return list + "[" + strconv.Itoa(i) + "]" }

// under puts the path of the parent in front of err's Param. It returns nil for nil.
func under(parent string, err *llm.Error) *llm.Error {
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

// unsupported returns an error that blames the field param for asking what cannot be done here.
func unsupported(param, message string) *llm.Error {
	return &llm.Error{Code: llm.CodeUnsupported, Param: param, Message: message}
}
