package config

import "github.com/ebb-agent/ebb/agent/configfile"

// Load reads the file at path, completes it with defaults and validates it. The error joins every
// problem.
func Load(path string) (Config, error) { return configfile.Load(path, Parse) }

// Parse decodes data over the defaults and validates the result.
func Parse(data []byte) (Config, error) {
	c := Default()
	if err := configfile.Decode(data, &c, c.problems); err != nil {
		return Config{}, err
	}
	return c, nil
}
