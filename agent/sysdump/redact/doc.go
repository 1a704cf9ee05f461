// Package redact removes secrets from the parts of a report: texts such as logs and pages ([Text]),
// documents ([YAML]) and decoded objects ([Object]).
//
// # Invariants
//
//   - The value of a key that names a secret is masked: a text, a number, or each of a list. In a
//     mapping, its own keys decide. A key that names the file or object with the secret does not
//     count ([Sensitive]).
//   - Text that looks like a secret is masked everywhere: PEM blocks, JSON web tokens, the words
//     after Bearer and Basic, users and passwords in URLs.
//   - In doubt, more is masked than necessary.
//
// # Failure modes
//
// A bare secret, without a key or other context, cannot be distinguished from another word. So the caller
// must leave out data that may hold bare secrets: Secrets, and values of environment variables.
package redact
