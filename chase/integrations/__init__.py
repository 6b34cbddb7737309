"""Where trainers of others meet a job: each module needs the library that it is named after."""
