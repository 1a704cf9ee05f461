// Package fields picks from objects what a collector wants to know beside their metadata,
// one function a type. Each takes the protobuf message of a whole object, without its
// envelope, which is valid during the call only: nothing of it is kept. A message that is
// garbled is an error, never an object that lacks something.
package fields
