// Package views turns values into markup: no request, no database, no clock. The handlers in web decide what to show.
package views

// Shell is what every page has around its content.
type Shell struct {
	Title            string
	CSS, JS, Icons   string // URLs
	Version          string
	Simulated        bool // the backends are simulated: say so on every page
	InsecureOverHTTP bool // the page was reached by plain HTTP from another machine
}

// Home is the front page for somebody who has not signed in.
type Home struct {
	Shell
	BaseURL string // of the API, such as http://127.0.0.1:8080
	State   State
	Models  int // how many models answer now
	Command string
	Curl    string
}

// State is the verdict on the service.
type State struct {
	OK     bool
	Words  string // "All model servers answer."
	Detail string // what to do if not
}

// Docs is the description of the interface for programs.
type Docs struct {
	Shell
	Groups  []OperationGroup
	Headers []Header
}

// OperationGroup is what belongs to one protocol.
type OperationGroup struct {
	ID, Name   string
	Base       string // URL that clients of the protocol are given; empty for none
	Operations []Operation
}

// Operation is one entry.
type Operation struct {
	Method, Path, Summary, Details string
	Public                         bool // no key is needed
}

// Header is a request header of ours.
type Header struct{ Name, Meaning string }
