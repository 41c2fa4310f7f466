package main

/*
#include "boundary.h"
*/
import "C"

import (
	"encoding/json"
	"unsafe"

	"github.com/hawkeye-audit/hawkeye/core/profile"
)

var profiles = newTable[profile.Profile](kindProfile)

func findProfile(h C.hawkeye_profile) (*profile.Profile, error) {
	if p := profiles.get(handle(h)); p != nil {
		return p, nil
	}
	return nil, fail(statusHandle, "%#x is not the handle of a profile, or the profile was freed", uint64(h))
}

// mostSuspects bounds a caller's list of profiles; a longer one was counted wrongly.
const mostSuspects = 1 << 16

// findProfiles converts a caller's list of profiles.
func findProfiles(what string, list *C.hawkeye_profile, count C.int64_t) ([]*profile.Profile, error) {
	if count > mostSuspects {
		return nil, fail(statusArgument, "%s has %d profiles: at most %d are taken", what, int64(count), mostSuspects)
	}
	handles, err := copyArray(what, (*uint64)(list), int64(count))
	if err != nil {
		return nil, err
	}
	var found []*profile.Profile
	for i, h := range handles {
		p, err := findProfile(C.hawkeye_profile(h))
		if err != nil {
			return nil, fail(statusHandle, "%s[%d]: %v", what, i, err)
		}
		found = append(found, p)
	}
	return found, nil
}

//export hawkeyeGoProfileLoad
func hawkeyeGoProfileLoad(name *C.char, out *C.hawkeye_profile, message *C.char, messageSize C.size_t) C.hawkeye_status {
	return guard(message, messageSize, func() error {
		if out == nil {
			return fail(statusArgument, "profile is NULL")
		}
		*out = 0
		wanted, err := goString("the name of the profile", name)
		if err != nil {
			return err
		}
		p, err := profile.Load(wanted)
		if err != nil {
			return fail(statusProfile, "%v", err)
		}
		*out = C.hawkeye_profile(profiles.put(p))
		return nil
	})
}

// largestProfile bounds the JSON of a profile in bytes; an explicit summation tree for a large K is the longest there is.
const largestProfile = 256 << 20

//export hawkeyeGoProfileParse
func hawkeyeGoProfileParse(text *C.char, size C.size_t, out *C.hawkeye_profile, message *C.char, messageSize C.size_t) C.hawkeye_status {
	return guard(message, messageSize, func() error {
		if out == nil {
			return fail(statusArgument, "profile is NULL")
		}
		*out = 0
		if text == nil {
			return fail(statusArgument, "json is NULL")
		}
		if size > largestProfile {
			return fail(statusArgument, "the JSON has %d bytes, more than any profile: at most %d are read", uint64(size), largestProfile)
		}
		p, err := profile.Parse(C.GoBytes(unsafe.Pointer(text), C.int(size)))
		if err != nil {
			return fail(statusProfile, "%v", err)
		}
		*out = C.hawkeye_profile(profiles.put(p))
		return nil
	})
}

//export hawkeyeGoProfileFree
func hawkeyeGoProfileFree(h C.hawkeye_profile, message *C.char, messageSize C.size_t) C.hawkeye_status {
	return guard(message, messageSize, func() error {
		if !profiles.remove(handle(h)) {
			_, err := findProfile(h)
			return err
		}
		return nil
	})
}

// profileText is the shape of the two calls that return a text about a profile.
func profileText(h C.hawkeye_profile, buffer *C.char, size C.size_t, needed *C.size_t, message *C.char, messageSize C.size_t,
	text func(*profile.Profile) string) C.hawkeye_status {
	return guard(message, messageSize, func() error {
		p, err := findProfile(h)
		if err != nil {
			return err
		}
		return returnText(text(p), buffer, size, needed)
	})
}

//export hawkeyeGoProfileJSON
func hawkeyeGoProfileJSON(h C.hawkeye_profile, buffer *C.char, size C.size_t, needed *C.size_t, message *C.char, messageSize C.size_t) C.hawkeye_status {
	return profileText(h, buffer, size, needed, message, messageSize, func(p *profile.Profile) string { return string(p.JSON()) })
}

//export hawkeyeGoProfileDescribe
func hawkeyeGoProfileDescribe(h C.hawkeye_profile, buffer *C.char, size C.size_t, needed *C.size_t, message *C.char, messageSize C.size_t) C.hawkeye_status {
	return profileText(h, buffer, size, needed, message, messageSize, (*profile.Profile).Describe)
}

//export hawkeyeGoProfileInfo
func hawkeyeGoProfileInfo(h C.hawkeye_profile, info *C.hawkeye_profile_info, message *C.char, messageSize C.size_t) C.hawkeye_status {
	return guard(message, messageSize, func() error {
		if err := sizedStruct("info", unsafe.Pointer(info), unsafe.Sizeof(*info), true); err != nil {
			return err
		}
		p, err := findProfile(h)
		if err != nil {
			return err
		}
		info.a, info.b = C.hawkeye_format(p.Step.A), C.hawkeye_format(p.Step.B)
		info.accumulator, info.out = C.hawkeye_format(p.Step.Result), C.hawkeye_format(p.Epilogue.Out)
		info.takes_f32, info.runnable = flag(p.TakesF32()), flag(p.Runnable())
		copyText(unsafe.Pointer(&info.id), uint64(len(info.id)), p.ID())
		copyText(unsafe.Pointer(&info.name), uint64(len(info.name)), p.Name)
		return nil
	})
}

func flag(b bool) C.int32_t {
	if b {
		return 1
	}
	return 0
}

// catalogueEntry is one element of hawkeye_profile_list.
type catalogueEntry struct {
	Name        string `json:"name"`
	ID          string `json:"id"`
	A           string `json:"a"`
	B           string `json:"b"`
	Accumulator string `json:"accumulator"`
	Out         string `json:"out"`
	TakesF32    bool   `json:"takes_f32"`
	Runnable    bool   `json:"runnable"`
	Summary     string `json:"summary"`
	Source      string `json:"source"`
	Doubts      string `json:"doubts"`
}

//export hawkeyeGoProfileList
func hawkeyeGoProfileList(buffer *C.char, size C.size_t, needed *C.size_t, message *C.char, messageSize C.size_t) C.hawkeye_status {
	return guard(message, messageSize, func() error {
		list := []catalogueEntry{}
		for _, p := range profile.List() {
			list = append(list, catalogueEntry{p.Name, p.ID(), p.Step.A.String(), p.Step.B.String(), p.Step.Result.String(),
				p.Epilogue.Out.String(), p.TakesF32(), p.Runnable(), p.Summary(), p.Provenance.Source, p.Provenance.Doubts})
		}
		text, err := json.Marshal(list)
		if err != nil {
			return err
		}
		return returnText(string(text), buffer, size, needed)
	})
}
