"""Which region's grid a place is on: by the names that clouds give their regions, and by time zone.

Of a cloud region the grid is the one that the place named by the operator is connected to; the provider's documentation
of its regions names the place. A time zone that several grids share lists them all, those that serve most people first.
"""

from __future__ import annotations

from collections.abc import Mapping

# Amazon Web Services: "Regions and Availability Zones" names city or state.
AWS: Mapping[str, str] = {
    "af-south-1": "za",  # Cape Town
    "ap-southeast-2": "au-nsw",  # Sydney
    "ap-southeast-4": "au-vic",  # Melbourne
    "ca-central-1": "ca-qc",  # Montreal
    "ca-west-1": "ca-ab",  # Calgary
    "eu-central-1": "de",  # Frankfurt
    "eu-central-2": "ch",  # Zurich
    "eu-north-1": "se",  # Stockholm
    "eu-south-1": "it-no",  # Milan
    "eu-south-2": "es",  # Aragon
    "eu-west-1": "ie",  # Dublin
    "eu-west-2": "gb",  # London
    "eu-west-3": "fr",  # Paris
    "eusc-de-east-1": "de",  # Brandenburg
    "sa-east-1": "br-cs",  # Sao Paulo
    "us-east-1": "us-mida-pjm",  # Northern Virginia
    "us-east-2": "us-mida-pjm",  # Ohio
    "us-gov-east-1": "us-mida-pjm",  # Ohio
    "us-gov-west-1": "us-nw-bpat",  # Oregon
    "us-west-1": "us-cal-ciso",  # Northern California
    "us-west-2": "us-nw-bpat",  # Oregon
}

# Google Cloud: "Regions and zones" names the town.
GOOGLE: Mapping[str, str] = {
    "africa-south1": "za",  # Johannesburg
    "australia-southeast1": "au-nsw",  # Sydney
    "australia-southeast2": "au-vic",  # Melbourne
    "europe-central2": "pl",  # Warsaw
    "europe-north1": "fi",  # Hamina
    "europe-north2": "se",  # Stockholm
    "europe-southwest1": "es",  # Madrid
    "europe-west1": "be",  # St. Ghislain
    "europe-west2": "gb",  # London
    "europe-west3": "de",  # Frankfurt
    "europe-west4": "nl",  # Eemshaven
    "europe-west6": "ch",  # Zurich
    "europe-west8": "it-no",  # Milan
    "europe-west9": "fr",  # Paris
    "europe-west10": "de",  # Berlin
    "europe-west12": "it-no",  # Turin
    "northamerica-northeast1": "ca-qc",  # Montreal
    "northamerica-northeast2": "ca-on",  # Toronto
    "southamerica-east1": "br-cs",  # Osasco, Sao Paulo
    "southamerica-west1": "cl-sen",  # Santiago
    "us-central1": "us-midw-miso",  # Council Bluffs, Iowa
    "us-east4": "us-mida-pjm",  # Ashburn, Virginia
    "us-east5": "us-mida-pjm",  # Columbus, Ohio
    "us-south1": "us-tex-erco",  # Dallas
    "us-west1": "us-nw-bpat",  # The Dalles, Oregon
    "us-west3": "us-nw-pace",  # Salt Lake City
    "us-west4": "us-nw-nevp",  # Las Vegas
}

# Microsoft Azure: "Azure geographies" names city or state. Names are written in many ways: as here, or "West Europe".
AZURE: Mapping[str, str] = {
    "australiacentral": "au-nsw",  # Canberra
    "australiacentral2": "au-nsw",  # Canberra
    "australiaeast": "au-nsw",  # New South Wales
    "australiasoutheast": "au-vic",  # Victoria
    "austriaeast": "at",  # Vienna
    "belgiumcentral": "be",  # Brussels
    "brazilsouth": "br-cs",  # Sao Paulo state
    "brazilsoutheast": "br-cs",  # Rio
    "canadacentral": "ca-on",  # Toronto
    "canadaeast": "ca-qc",  # Quebec
    "centralus": "us-midw-miso",  # Iowa
    "chilecentral": "cl-sen",  # Santiago
    "denmarkeast": "dk2",  # Copenhagen
    "eastus": "us-mida-pjm",  # Virginia
    "eastus2": "us-mida-pjm",  # Virginia
    "francecentral": "fr",  # Paris
    "francesouth": "fr",  # Marseille
    "germanynorth": "de",  # Berlin
    "germanywestcentral": "de",  # Frankfurt
    "italynorth": "it-no",  # Milan
    "northcentralus": "us-mida-pjm",  # Illinois (Chicago)
    "northeurope": "ie",  # Ireland
    "norwayeast": "no",  # Norway
    "norwaywest": "no",  # Norway
    "polandcentral": "pl",  # Warsaw
    "southafricanorth": "za",  # Johannesburg
    "southafricawest": "za",  # Cape Town
    "southcentralus": "us-tex-erco",  # Texas
    "spaincentral": "es",  # Madrid
    "swedencentral": "se",  # Gavle
    "swedensouth": "se",  # Staffanstorp
    "switzerlandnorth": "ch",  # Zurich
    "switzerlandwest": "ch",  # Geneva
    "uksouth": "gb",  # London
    "ukwest": "gb",  # Cardiff
    "westeurope": "nl",  # Netherlands
    "westus": "us-cal-ciso",  # California
    "westus2": "us-nw-bpat",  # Washington
    "westus3": "us-sw-azps",  # Phoenix
}

_EASTERN = (
    "us-mida-pjm",
    "us-ny-nyis",
    "us-ne-isne",
    "us-fla-fpl",
    "us-car-duk",
    "us-se-soco",
    "us-midw-miso",
    "us-ten-tva",
)
_CENTRAL = ("us-tex-erco", "us-midw-miso", "us-cent-swpp", "us-mida-pjm", "us-ten-tva", "us-se-soco")
_INDIANA = ("us-midw-miso", "us-mida-pjm")

# IANA time zones and the links to them that machines still have.
TIME_ZONES: Mapping[str, tuple[str, ...]] = {
    "Africa/Johannesburg": ("za",),
    "America/Boise": ("us-nw-pace", "us-nw-bpat"),
    "America/Chicago": _CENTRAL,
    "America/Denver": ("us-nw-psco", "us-nw-pace"),
    "America/Detroit": ("us-midw-miso", "us-mida-pjm"),
    "America/Edmonton": ("ca-ab",),
    "America/Indiana/Indianapolis": _INDIANA,
    "America/Kentucky/Louisville": ("us-mida-pjm", "us-ten-tva"),
    "America/Los_Angeles": ("us-cal-ciso", "us-nw-bpat", "us-nw-nevp"),
    "America/Menominee": ("us-midw-miso",),
    "America/Montreal": ("ca-qc",),
    "America/New_York": _EASTERN,
    "America/Phoenix": ("us-sw-azps",),
    "America/Santiago": ("cl-sen",),
    "America/Sao_Paulo": ("br-cs",),
    "America/Toronto": ("ca-on", "ca-qc"),
    "America/Vancouver": ("ca-bc",),
    "Atlantic/Reykjavik": ("is",),
    "Australia/ACT": ("au-nsw",),
    "Australia/Adelaide": ("au-sa",),
    "Australia/Brisbane": ("au-qld",),
    "Australia/Broken_Hill": ("au-nsw",),
    "Australia/Canberra": ("au-nsw",),
    "Australia/Hobart": ("au-tas",),
    "Australia/Melbourne": ("au-vic",),
    "Australia/NSW": ("au-nsw",),
    "Australia/Perth": ("au-wa",),
    "Australia/Queensland": ("au-qld",),
    "Australia/South": ("au-sa",),
    "Australia/Sydney": ("au-nsw",),
    "Australia/Tasmania": ("au-tas",),
    "Australia/Victoria": ("au-vic",),
    "Australia/West": ("au-wa",),
    "Brazil/East": ("br-cs",),
    "Canada/Eastern": ("ca-on", "ca-qc"),
    "Canada/Mountain": ("ca-ab",),
    "Canada/Pacific": ("ca-bc",),
    "Chile/Continental": ("cl-sen",),
    "Eire": ("ie",),
    "Europe/Amsterdam": ("nl",),
    "Europe/Athens": ("gr",),
    "Europe/Belgrade": ("rs",),
    "Europe/Berlin": ("de",),
    "Europe/Bratislava": ("sk",),
    "Europe/Brussels": ("be",),
    "Europe/Bucharest": ("ro",),
    "Europe/Budapest": ("hu",),
    "Europe/Busingen": ("de",),
    "Europe/Copenhagen": ("dk1", "dk2"),
    "Europe/Dublin": ("ie",),
    "Europe/Helsinki": ("fi",),
    "Europe/Lisbon": ("pt",),
    "Europe/Ljubljana": ("si",),
    "Europe/London": ("gb",),
    "Europe/Luxembourg": ("lu",),
    "Europe/Madrid": ("es",),
    "Europe/Oslo": ("no",),
    "Europe/Paris": ("fr",),
    "Europe/Prague": ("cz",),
    "Europe/Riga": ("lv",),
    "Europe/Rome": ("it-no", "it"),
    "Europe/San_Marino": ("it",),
    "Europe/Sofia": ("bg",),
    "Europe/Stockholm": ("se",),
    "Europe/Tallinn": ("ee",),
    "Europe/Vaduz": ("ch",),
    "Europe/Vatican": ("it",),
    "Europe/Vienna": ("at",),
    "Europe/Vilnius": ("lt",),
    "Europe/Warsaw": ("pl",),
    "Europe/Zagreb": ("hr",),
    "Europe/Zurich": ("ch",),
    "GB": ("gb",),
    "GB-Eire": ("gb",),
    "Iceland": ("is",),
    "Poland": ("pl",),
    "Portugal": ("pt",),
    "US/Arizona": ("us-sw-azps",),
    "US/Central": _CENTRAL,
    "US/East-Indiana": _INDIANA,
    "US/Eastern": _EASTERN,
    "US/Michigan": ("us-midw-miso", "us-mida-pjm"),
    "US/Mountain": ("us-nw-psco", "us-nw-pace"),
    "US/Pacific": ("us-cal-ciso", "us-nw-bpat", "us-nw-nevp"),
}
