// Package csrs collects CertificateSigningRequests that nobody needs any more, as the
// cleaner of the kube-controller-manager does: those pending, and those approved without
// a certificate, for a day; those issued, denied or failed for an hour; those whose
// certificate has expired. Config has the times, for each signer if need be. The same
// goes for PodCertificateRequests, which live for a quarter of an hour.
//
// Each rule that applies gives a moment, and the earliest counts. A request whose
// certificate cannot be parsed is subject to the other rules, and stands in nobody's way.
//
// A decision rests on one version of one request, and the Delete has that version as its
// precondition: who approves a request just before its end keeps it. Nothing is asked for
// before a type was listed once, nor while it cannot be read.
package csrs
