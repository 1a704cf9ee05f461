// Package admission writes deploy/admission: the checks of the admission plugin
// OwnerReferencesPermissionEnforcement, as a ValidatingAdmissionPolicy.
//
// The policy is generated because CEL has no loop around an authorizer's check. One check
// costs 350,000 of the 1,000,000 that an expression may cost, so each owner has its own
// validation. 24 of them, the check of the object itself and the rest fit into the
// 10,000,000 that a policy may cost. A write that newly blocks more owners is refused.
//
// # Invariants
//
//   - The policy allows only what the plugin allows. Every difference is listed in
//     docs/admission.md and asserted by a test in deploy/e2e.
//   - No parameters, no webhook: nothing whose absence could lock people out.
//   - A write that changes no owner reference costs one expression and no check.
//
// # Sources
//
// k8s.io/kubernetes/plugin/pkg/admission/gc/gc_admission.go,
// k8s.io/apiserver/pkg/cel/library/{authz,cost}.go,
// k8s.io/apiserver/pkg/apis/cel/config.go,
// k8s.io/apimachinery/pkg/api/meta/restmapper.go (UnsafeGuessKindToResource), all of 1.36.
package admission

//go:generate go run ./cmd/policy -dir ../../deploy/admission
