package rules

import (
	"slices"
	"strings"
	"unicode"
)

// Elsewhere says why the table does not speak for what a device computed: it was measured on other GPUs, or the device is
// none. "" where it does, and where nothing at all is known of the device. device is that of a case record: "gpu" names the
// GPU, "cpu" a processor that computed instead ("device" is then "cpu"); "emulated" says that a CPU did what the GPU does.
//
// A plan of the table that gives the recorded output still says so; that none does says nothing.
func Elsewhere(device map[string]string) string { return loaded().elsewhere(device) }

func (t *table) elsewhere(device map[string]string) string {
	gpu := device["gpu"]
	switch {
	case len(device) == 0:
		return ""
	case gpu == "" || device["device"] == "cpu" && device["emulated"] == "":
		if gpu == "" && device["device"] != "cpu" && device["cpu"] == "" {
			return "the record does not name the GPU: no rule is known for it"
		}
		if cpu := plain(device["cpu"]); cpu != "" {
			return "recorded on a CPU (" + cpu + "): no rule is known for it"
		}
		return "recorded on a CPU: no rule is known for it"
	case slices.Contains(t.GPUs, gpu):
		return ""
	}
	return "recorded on " + article(plain(gpu)) + ": the rules were measured on " + t.measuredOn()
}

// OtherLibrary says that a record is of another version of cuBLAS than the rules were measured with; "" where it is not, or does
// not say, or where the version on the machine computed nothing. A kernel of the same name is taken to be the same kernel.
func OtherLibrary(device map[string]string) string {
	t := loaded()
	had := device["nvidia-cublas"]
	if had == "" || had == t.CuBLAS || device["emulated"] != "" || t.elsewhere(device) != "" {
		return ""
	}
	return "recorded with cuBLAS " + plain(had) + ": the rules were measured with cuBLAS " + t.CuBLAS
}

// MeasuredOn names the GPUs that the rows of the table were measured on: "an NVIDIA H200".
func MeasuredOn() string { return loaded().measuredOn() }

func (t *table) measuredOn() string {
	var names []string
	for _, gpu := range t.GPUs {
		names = append(names, article(gpu))
	}
	return strings.Join(names, " and ")
}

// longestName bounds the name of a device in a sentence: a record may be anybody's.
const longestName = 80

// plain is a name fit for a sentence.
func plain(name string) string {
	clean := strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return -1
	}, name)
	if list := []rune(clean); len(list) > longestName {
		return string(list[:longestName]) + "…"
	}
	return clean
}

// article puts "a" or "an" before the name of a GPU, by how its first word is said.
func article(name string) string {
	if strings.HasPrefix(name, "NVIDIA") || name != "" && strings.Contains("AEIO", name[:1]) {
		return "an " + name
	}
	return "a " + name
}
