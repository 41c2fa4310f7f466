// Package verify uses profiles: it compares bits, finds the profile of a recorded multiplication among those that package
// rules lists for it, and gives a verdict that never claims more than was compared.
//
// replay.go runs a case: rules.go asks for candidates, search.go eliminates them on a few elements, evidence.go says what
// agreement is worth, judge.go gives the verdict. Where nothing agrees, explain.go looks for the reason: a fault that gives
// the recorded bits (faults.go), or a pattern in what differs (difference.go). set.go and instructions.go read sets of cases.
package verify
