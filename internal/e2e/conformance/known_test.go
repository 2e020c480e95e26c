package conformance_test

// KNOWN FAULTS: what the gateway does not do as the rule demands. An entry fails when its fault is gone.
var known []fault
