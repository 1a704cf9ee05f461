// Package csrs collects CertificateSigningRequests that are no longer needed, by the rules of
// the kube-controller-manager's cleaner. It deletes requests that are
//
//   - pending, or approved without a certificate, for a day;
//   - issued, denied or failed for an hour;
//   - issued with a certificate that has expired.
//
// Config has the times, also per signer. PodCertificateRequests are collected likewise, a
// quarter of an hour after their creation.
//
// Each rule that applies gives a time, and the earliest counts. A request whose certificate
// cannot be parsed is subject to the other rules, and does not block other requests.
//
// A decision rests on one version of one request, and the Delete has that version as its
// precondition. So a request that is approved just before its deletion is kept. Nothing is
// deleted before its type was listed once, or while the type cannot be read.
package csrs
