package conformance_test

// KNOWN FAULTS: what the gateway does not do as the rule demands. An entry fails when its fault is gone.
var known = []fault{
	{
		rule: "a server that refuses the developer role is asked again with a system message",
		why:  "the gateway does not repeat a request that a server has refused; the role is a setting of the model",
	},
}
