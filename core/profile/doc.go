// Package profile joins a step, a plan and an epilogue into a profile: data that says everything about one
// multiplication's arithmetic and where that knowledge comes from. New hardware is a new JSON file, not new code.
package profile
