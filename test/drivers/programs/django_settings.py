"""Settings for Django's own tests: the server that the environment names, and a runner that
says one line for each test."""

import os
import unittest

from django.test.runner import DiscoverRunner

DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": os.environ["PGDATABASE"],
        "USER": os.environ["PGUSER"],
        "HOST": os.environ["PGHOST"],
        "PORT": os.environ["PGPORT"],
        "TEST": {"NAME": os.environ["PGDATABASE"]},
    },
    "other": {"ENGINE": "django.db.backends.sqlite3"},
}
SECRET_KEY = "for tests"
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
DEFAULT_AUTO_FIELD = "django.db.models.AutoField"
USE_TZ = False
TEST_RUNNER = "tutti_settings.Runner"


class Result(unittest.TextTestResult):
    def _say(self, word, test):
        print(f"\n{word} - {test.id()}", flush=True)

    def addSuccess(self, test):
        super().addSuccess(test)
        self._say("ok", test)

    def addError(self, test, err):
        super().addError(test, err)
        self._say("not ok", test)

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self._say("not ok", test)

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self._say("skip", test)

    def addExpectedFailure(self, test, err):
        super().addExpectedFailure(test, err)
        self._say("ok", test)

    def addUnexpectedSuccess(self, test):
        super().addUnexpectedSuccess(test)
        self._say("not ok", test)

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err is not None:
            self._say("not ok", test)


class Runner(DiscoverRunner):
    def get_resultclass(self):
        return Result
