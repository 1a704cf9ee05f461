package chart

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
)

// copies maps files of the chart to their sources.
var copies = map[string]string{
	"deploy/chart/files/admission/policy.yaml":      "deploy/admission/policy.yaml",
	"deploy/chart/files/admission/deny.yaml":        "deploy/admission/deny.yaml",
	"deploy/chart/files/rules.yaml":                 "deploy/prometheus/rules.yaml",
	"deploy/chart/files/optional.yaml":              "deploy/prometheus/optional.yaml",
	"deploy/chart/files/dashboards/fleet.json":      "deploy/grafana/fleet.json",
	"deploy/chart/files/dashboards/node.json":       "deploy/grafana/node.json",
	"deploy/chart/files/dashboards/controller.json": "deploy/grafana/controller.json",
}

// Inputs generates the files that the chart itself needs: its schema, its copies and
// the page about its values. Keys are paths below root.
func Inputs(root string) (map[string][]byte, error) {
	values, err := ReadValues(filepath.Join(root, "deploy/chart/values.yaml"))
	if err != nil {
		return nil, err
	}
	files := make(map[string][]byte)
	if files["deploy/chart/values.schema.json"], err = Schema(values); err != nil {
		return nil, fmt.Errorf("schema: %w", err)
	}
	const page = "docs/chart.md"
	text, err := os.ReadFile(filepath.Join(root, page))
	if err != nil {
		return nil, fmt.Errorf("reference: %w", err)
	}
	if files[page], err = Reference(text, values); err != nil {
		return nil, fmt.Errorf("reference: %s: %w", page, err)
	}
	if files["deploy/chart/files/rights.yaml"], err = rights(); err != nil {
		return nil, fmt.Errorf("rights: %w", err)
	}
	for to, from := range copies {
		data, err := os.ReadFile(filepath.Join(root, from))
		if err != nil {
			return nil, fmt.Errorf("copy: %w", err)
		}
		files[to] = data
	}
	return files, nil
}

// Generate writes all generated files.
func Generate(ctx context.Context, root string) error {
	inputs, err := Inputs(root)
	if err != nil {
		return err
	}
	if err := write(root, inputs); err != nil {
		return err
	}
	helm, err := Build(ctx, root)
	if err != nil {
		return err
	}
	files, err := helm.Manifests(ctx)
	if err != nil {
		return err
	}
	// A manifest that is no longer generated must not be applied any more.
	if err := os.RemoveAll(filepath.Join(root, ManifestDir)); err != nil {
		return fmt.Errorf("remove old manifests: %w", err)
	}
	return write(filepath.Join(root, ManifestDir), files)
}

func write(dir string, files map[string][]byte) error {
	for _, name := range slices.Sorted(maps.Keys(files)) {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return fmt.Errorf("write %s: %w", name, err)
		}
		if err := os.WriteFile(file, files[name], 0o644); err != nil {
			return fmt.Errorf("write %s: %w", name, err)
		}
	}
	return nil
}
