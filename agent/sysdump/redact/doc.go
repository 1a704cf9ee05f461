// Package redact takes secrets out of what is put into a report: texts such as logs and
// pages ([Text]), documents ([YAML]) and decoded objects ([Object]).
//
// # Invariants
//
//   - What stands under a key that names a secret goes, whatever it is; a key that names
//     the file or object with the secret does not count ([Sensitive]).
//   - What looks like a secret goes wherever it stands: PEM blocks, JSON web tokens, the
//     words after Bearer and Basic, users and passwords in URLs.
//   - In doubt more goes than had to.
//
// # Failure modes
//
// A bare secret, with nothing around it that says what it is, cannot be told
// from another word. So whoever builds a report does not put in what may hold such words:
// Secrets, values of environment variables.
package redact
