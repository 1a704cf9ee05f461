// Package chart generates the parts of the Helm chart in deploy/chart that are not
// written by hand. These are the schema of its values, their table in docs/chart.md,
// and the chart's copies of rules, dashboards and admission policy. From the chart it
// generates the plain manifests in deploy/manifests.
//
// # Invariants
//
//   - The chart is the source of truth. The manifests are the output of "helm template"
//     with the defaults, split into files. The only addition is the Namespace, which
//     helm users make themselves.
//   - values.yaml is the only list of values: its keys are the schema's, its comments
//     the documentation. constraints.go adds only what a default cannot express:
//     enumerations, patterns, the items of lists.
//   - The fields of agent.config and controller.config come from the structs that
//     ebb-agent and ebb-controller decode into, so that helm refuses a misspelt field.
//
// Everything is a pure function of the files, except for Helm itself: the pinned
// version of tools/helm, built on first use. Generate writes; the tests compare.
//
// # Sources
//
// helm.sh/helm/v3 (pkg/engine, pkg/chartutil: values are checked by
// santhosh-tekuri/jsonschema before templates run), JSON Schema draft 7.
package chart

//go:generate go run ./cmd/manifests -root ../..
