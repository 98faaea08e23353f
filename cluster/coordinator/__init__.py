"""Coordinators: shells around state machines; producer ids are handed out here."""
