// Package chart makes what belongs to the Helm chart in deploy/chart and is not
// written by hand: the schema of its values, their table in docs/chart.md, the
// copies of rules, dashboards and admission policy that the chart offers, and the
// plain manifests in deploy/manifests.
//
// # Invariants
//
//   - The chart is the source of truth. The manifests are what "helm template"
//     makes of it with the defaults, cut into files; they differ by the Namespace
//     alone, which helm users make themselves.
//   - values.yaml says once what there is: its keys are the schema's, its comments
//     the documentation. Only what a default cannot tell (an enumeration, a pattern,
//     what a list has) is added, in constraints.go.
//   - What agent.config and controller.config may have comes from the structs that
//     ebb-agent and ebb-controller decode into, so that a misspelt field is refused
//     by helm already.
//
// Everything is a pure function of the files, but for Helm itself, which is the
// pinned one of tools/helm, built on first use. Generate writes; the tests compare.
//
// # Sources
//
// helm.sh/helm/v3 (pkg/engine, pkg/chartutil: values are checked by
// santhosh-tekuri/jsonschema before templates run), JSON Schema draft 7.
package chart

//go:generate go run ./cmd/manifests -root ../..
