package chart

import (
	"bytes"
	"context"
	"fmt"
	"strings"
)

// ManifestDir is the directory of the manifests, relative to the root.
const ManifestDir = "deploy/manifests"

// manifests maps files to the prefixes of the templates that they are rendered from; the first match
// applies. kubectl applies the files of a directory in name order, so the namespace is first. It
// does not apply subdirectories: the directory itself holds the chart's defaults, and the controller
// has its own subdirectory.
var manifests = []struct {
	file, template, about string
}{
	{"00-namespace.yaml", "namespace.yaml", "Where ebb is."},
	{"agent.yaml", "agent/", "ebb-agent, on every node."},
	{"controller/rbac.yaml", "controller/rbac.yaml", "The account of ebb-controller and its rights: to read, and nothing else."},
	{"controller/flowschema.yaml", "controller/flowschema.yaml", "The priority level of ebb-controller's requests."},
	{"controller/controller.yaml", "controller/", "ebb-controller."},
	{EnforcingRights, "enforce/", "The rights of ebb-controller in mode enforce: apply before you set the mode."},
	{"uninstall/check.yaml", "uninstall/check.yaml", "Whether ebb may go: apply before anything else is deleted."},
	{"uninstall/unload.yaml", "uninstall/unload.yaml", "Removes from the nodes what the agents left: apply after they are gone."},
}

// EnforcingRights is the file with the rights of a controller in mode enforce.
const EnforcingRights = "enforce/controller-rbac.yaml"

// Manifests renders the chart with the namespace, the controller, and otherwise defaults. It adds
// the rights of a controller in mode enforce.
func (h *Helm) Manifests(ctx context.Context) (map[string][]byte, error) {
	rendered, err := h.Template(ctx, "--skip-tests", "--set", "namespace.create=true,controller.enabled=true")
	if err != nil {
		return nil, err
	}
	enforcing, err := h.Template(ctx, "--set", "controller.enabled=true,controller.mode=enforce", "--show-only", "templates/controller/rbac.yaml")
	if err != nil {
		return nil, err
	}
	for _, d := range enforcing {
		rendered = append(rendered, Document{"enforce/" + d.Template, d.Text})
	}
	files := make(map[string][]byte)
	for _, d := range rendered {
		file, about := "", ""
		for _, m := range manifests {
			if strings.HasPrefix(d.Template, m.template) {
				file, about = m.file, m.about
				break
			}
		}
		if file == "" {
			return nil, fmt.Errorf("manifests: no file for template %s", d.Template)
		}
		if files[file] == nil {
			files[file] = fmt.Appendf(nil, "# %s\n# Rendered from deploy/chart: run \"make manifests\" after a change there.\n", about)
		} else {
			files[file] = append(files[file], "---\n"...)
		}
		files[file] = append(files[file], bytes.TrimLeft(d.Text, "\n")...)
	}
	return files, nil
}
